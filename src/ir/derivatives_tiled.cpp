// TRL v1.16, kernels/chunked_logprob.py: ChunkedLogProbFunction.backward;
// kernels/chunked_divergence.py: ChunkedDivergenceFunction.backward.
#include <algorithm>

#include "ac_advisor/ir/derivation.hpp"
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {
namespace {

/// A part of an operand in the dtype of the products.
ValueId narrowed(Derivation& d, ValueId part, DType dtype) {
  return d.dtype(part) == dtype ? part : d.emit(OpKind::cast, {part}, d.shape(part), dtype);
}

/// A sum in the dtype of what it is the gradient of; none has none.
ValueId in_dtype_of(Derivation& d, ValueId like, ValueId sum) {
  return sum == no_id ? no_id : narrowed(d, sum, d.dtype(like));
}

/// A local of the function's frame lives until it is bound anew.
void hold(Derivation& d, ValueId local) {
  if (local != no_id) d.emit_raw(OpKind::hold, {local}, {});
}
void rebind(Derivation& d, ValueId& local, ValueId next) {
  hold(d, local);
  local = next;
}

void add_product(Derivation& d, ValueId sum, const Shape& shape, ValueId a, ValueId b,
                 const Product& product) {
  d.emit_raw(OpKind::addmm, {sum, a, b}, {d.within(sum, shape)}, product);
}

}  // namespace

// inputs: hidden [N, H], weight [V, H], targets [N], log-sum-exp [N], entropy [N], and if there is
// one the bias [V]; output [N]. Each tile of logits is made once more, turned into its gradient
// where it is, and multiplied into the sums, which are in fp32 whatever the operands are.
void tiled_log_probs(Derivation& d) {
  const ValueId hidden = d.in(0), weight = d.in(1), g = d.grad();
  const auto tiles = d.attributes<TiledHead>();
  const DType type = tiles.narrow ? DType::bf16 : DType::f32;
  const std::int64_t all = d.shape(hidden)[0], h = d.shape(hidden)[1], vocab = d.shape(weight)[0];
  const auto inner = static_cast<std::int32_t>(h);
  ValueId into_hidden = no_id, into_weight = no_id;
  if (d.needs(0)) into_hidden = d.emit(OpKind::fill, {}, {all, h}, DType::f32);
  if (d.needs(1)) into_weight = d.emit(OpKind::fill, {}, {vocab, h}, DType::f32);
  const ValueId bias = d.inputs() > 5 ? d.in(5) : no_id;
  ValueId into_bias = no_id;
  if (bias != no_id && d.needs(5)) into_bias = d.emit(OpKind::fill, {}, {vocab}, DType::f32);
  const ValueId buffer =
      d.emit(OpKind::empty, {}, {std::min<std::int64_t>(all, tiles.tokens), tiles.words}, type);
  ValueId rows = no_id, words = no_id;
  for (std::int64_t start = 0; start < all; start += tiles.tokens) {
    const std::int64_t n = std::min<std::int64_t>(tiles.tokens, all - start);
    rebind(d, rows, narrowed(d, d.part(hidden, 0, start, n), type));
    for (std::int64_t word = 0; word < vocab; word += tiles.words) {
      const std::int64_t v = std::min<std::int64_t>(tiles.words, vocab - word);
      rebind(d, words, narrowed(d, d.part(weight, 0, word, v), type));
      const ValueId logits = d.within(buffer, {n, v}), gradient = d.within(buffer, {n, v});
      d.emit_raw(OpKind::mm, {rows, words}, {logits}, Product{inner});
      if (bias != no_id)
        d.emit_raw(OpKind::add, {logits, narrowed(d, d.part(bias, 0, word, v), type)},
                   {d.within(buffer, {n, v})});
      d.emit_raw(OpKind::softmax, {logits, d.in(2), d.in(3), d.in(4), g}, {gradient});
      if (into_hidden != no_id)
        add_product(d, d.part(into_hidden, 0, start, n), {n, h}, gradient, words,
                    Product{static_cast<std::int32_t>(v), Form::nn});
      if (into_weight != no_id)
        add_product(d, d.part(into_weight, 0, word, v), {v, h}, gradient, rows,
                    Product{static_cast<std::int32_t>(n), Form::tn});
      if (into_bias == no_id) continue;
      const ValueId sum = d.emit(OpKind::sum, {gradient}, {v}, DType::f32);
      const ValueId so_far = d.part(into_bias, 0, word, v);
      d.emit_raw(OpKind::add, {so_far, sum}, {d.within(so_far, {v})});
    }
  }
  const ValueId to_hidden = in_dtype_of(d, hidden, into_hidden),
                to_weight = in_dtype_of(d, weight, into_weight),
                to_bias = in_dtype_of(d, bias, into_bias);
  // the frame's locals
  hold(d, rows);
  hold(d, words);
  for (const ValueId local : {buffer, into_hidden, into_weight, into_bias}) hold(d, local);
  if (to_hidden != no_id) d.give(0, to_hidden);
  if (to_weight != no_id) d.give(1, to_weight);
  if (to_bias != no_id) d.give(5, to_bias);
}

// inputs: the student's hidden [N, H] and weight [V, H], the teacher's [N, H'] and [V, H'], both
// log-sum-exps [N], and what the divergence was made of, of which the output [N] is kept. Both
// tiles of logits are made once more, in fp32; the student's becomes its gradient where it is, and
// a copy in the products' dtype is multiplied into the sums, which are in fp32. The teacher has no
// gradient.
void tiled_divergence(Derivation& d) {
  const ValueId hidden = d.in(0), weight = d.in(1), given = d.grad();
  const auto tiles = d.attributes<TiledHead>();
  const std::int64_t all = d.shape(hidden)[0], h = d.shape(hidden)[1], vocab = d.shape(weight)[0];
  const DType types[] = {tiles.narrow ? DType::bf16 : d.dtype(hidden),
                         tiles.narrow ? DType::bf16 : d.dtype(d.in(2))};
  // of a sum an expanded number, made contiguous
  const ValueId g = d.emit(OpKind::copy, {given}, {all}, DType::f32);
  ValueId into_hidden = no_id, into_weight = no_id;
  if (d.needs(0)) into_hidden = d.emit(OpKind::fill, {}, {all, h}, DType::f32);
  if (d.needs(1)) into_weight = d.emit(OpKind::fill, {}, {vocab, h}, DType::f32);
  const Shape tile{std::min<std::int64_t>(all, tiles.tokens), tiles.words};
  const ValueId buffers[] = {d.emit(OpKind::empty, {}, tile, DType::f32),
                             d.emit(OpKind::empty, {}, tile, DType::f32)};
  ValueId rows[] = {no_id, no_id}, gradient = no_id;
  for (std::int64_t start = 0; start < all; start += tiles.tokens) {
    const std::int64_t n = std::min<std::int64_t>(tiles.tokens, all - start);
    for (std::size_t i = 0; i < 2; ++i)
      rebind(d, rows[i], narrowed(d, d.part(d.in(2 * i), 0, start, n), types[i]));
    for (std::int64_t word = 0; word < vocab; word += tiles.words) {
      const std::int64_t v = std::min<std::int64_t>(tiles.words, vocab - word);
      ValueId logits[] = {no_id, no_id};
      for (std::size_t i = 0; i < 2; ++i) {
        logits[i] = d.within(buffers[i], {n, v});
        const ValueId words = narrowed(d, d.part(d.in(2 * i + 1), 0, word, v), types[i]);
        d.emit_raw(OpKind::mm, {rows[i], words}, {logits[i]},
                   Product{static_cast<std::int32_t>(d.shape(words).back())});
      }
      const ValueId wide = d.within(buffers[0], {n, v});
      d.emit_raw(OpKind::softmax, {logits[0], logits[1], d.in(4), d.in(5), d.out(), g}, {wide});
      rebind(d, gradient, narrowed(d, wide, types[0]));
      if (into_hidden != no_id)
        add_product(d, d.part(into_hidden, 0, start, n), {n, h}, gradient,
                    narrowed(d, d.part(weight, 0, word, v), types[0]),
                    Product{static_cast<std::int32_t>(v), Form::nn});
      if (into_weight != no_id)
        add_product(d, d.part(into_weight, 0, word, v), {v, h}, gradient, rows[0],
                    Product{static_cast<std::int32_t>(n), Form::tn});
    }
  }
  const ValueId to_hidden = in_dtype_of(d, hidden, into_hidden),
                to_weight = in_dtype_of(d, weight, into_weight);
  for (const ValueId local :
       {rows[0], rows[1], gradient, g, buffers[0], buffers[1], into_hidden, into_weight})
    hold(d, local);
  if (to_hidden != no_id) d.give(0, to_hidden);
  if (to_weight != no_id) d.give(1, to_weight);
}

}  // namespace ac_advisor::ir::derive
