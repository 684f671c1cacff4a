// transformers v5.23: torch_chunk_gated_delta_rule, in fp32. A sequence is cut into chunks of 64
// tokens; what a chunk needs of itself is made of all at once, then the state goes through them one
// after the other.
#include <cmath>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Form;
using ir::Module;
using ir::OpKind;
using ir::Shape;

namespace {

constexpr std::int64_t chunk_tokens = 64;

/// Without the last dimension, or with it at one.
Shape row_of(Shape s) {
  s.set(s.rank() - 1, 1);
  return s;
}

}  // namespace

/// l2norm: x / |x| of each head's vector.
ir::ValueId Lowering::unit_length(V x) {
  const V squares = binary(OpKind::mul, x, x);
  const V sum = out(row_of(shape(x)), DType::f32, grad(x));
  emit(OpKind::sum, {squares}, {sum});
  const V inverse = unary(OpKind::rsqrt, unary(OpKind::add_scalar, sum, ir::Number{1e-6}));
  return binary(OpKind::mul, x, inverse);
}

/// transpose(1, 2).to(float32): (B, heads, S, D), contiguous.
ir::ValueId Lowering::wide_heads(V x) {
  const V y = out(shape(x), DType::f32, grad(x));
  emit(OpKind::cast, {x}, {y});
  return y;
}

/// To whole chunks along `dim`; a copy where there is nothing to add.
ir::ValueId Lowering::padded(V x, std::size_t dim) {
  Shape s = shape(x);
  const bool longer = s[dim] % chunk_tokens != 0;
  s.set(dim, (s[dim] + chunk_tokens - 1) / chunk_tokens * chunk_tokens);
  const V y = out(s, dtype(x), grad(x));
  p_.value(y).permuted = !longer && p_.value(x).permuted;
  emit(OpKind::pad, {x}, {y});
  return y;
}

/// (B, heads, S, D) as (B, heads, chunks, 64, D): a view.
ir::ValueId Lowering::in_chunks(V x) {
  const Shape s = shape(x);
  const std::int64_t chunks = s[2] / chunk_tokens;
  const V y = p_.on_storage_of(x, {s[0], s[1], chunks, chunk_tokens, s[3]}, dtype(x), false);
  p_.value(y).permuted = p_.value(x).permuted;
  emit(OpKind::view, {x}, {y});
  return y;
}

/// x[:, :, index]: a view without that dimension.
ir::ValueId Lowering::chunk_of(V x, std::int64_t index) {
  const Shape s = shape(x);
  return sliced(x, {s[0], s[1], s[3], s[4]}, ir::Slice{static_cast<std::int32_t>(index), 2});
}

/// torch.matmul of matrices in as many dimensions as `size` has, which it folds by views.
ir::ValueId Lowering::product_of(V a, V b, const Shape& size, Form form) {
  a = autocast(a), b = autocast(b);
  const auto folded_to = [&](V x, std::int64_t rows, std::int64_t columns) {
    return p_.reshape(x, {shape(x).numel() / (rows * columns), rows, columns});
  };
  const std::int64_t rows = size[size.rank() - 2], columns = size.back(),
                     inner = shape(a).numel() / (size.numel() / columns);
  const V left = folded_to(a, rows, inner);
  const V right = form == Form::nt ? folded_to(b, columns, inner) : folded_to(b, inner, columns);
  const V y = out({size.numel() / (rows * columns), rows, columns}, dtype(a), grad(a) || grad(b));
  emit(OpKind::bmm, {left, right}, {y}, ir::Product{static_cast<std::int32_t>(inner), form});
  return p_.reshape(y, size);
}

/// x times a number a token, (B, heads, chunks, 64).
ir::ValueId Lowering::decayed(V x, V by) {
  return binary(OpKind::mul, x, p_.reshape(by, row_of(shape(x))));
}

/// The part before the scan.
Lowering::DeltaChunks Lowering::delta_chunks(const DeltaInputs& in, std::vector<V>& frame) {
  const std::int64_t each = spec_.delta->value_heads / spec_.delta->key_heads;
  const auto repeated_by_head = [&](V x) {
    if (each == 1) return x;
    const V all = repeated(x, 2, each);
    const Shape s = shape(all);
    return p_.reshape(all, {s[0], s[2], s[1], s[3]}, true);
  };
  const V many_queries = repeated_by_head(in.queries), many_keys = repeated_by_head(in.keys);
  const auto by_head_first = [&](V x) {
    const Shape s = shape(x);
    return p_.reshape(x, {s[0], s[2], s[1]}, true);
  };
  const V wide_queries = wide_heads(many_queries), wide_keys = wide_heads(many_keys),
          wide_values = wide_heads(in.values), wide_rate = wide_heads(by_head_first(in.rate));
  hold({many_queries, many_keys});  // `query`, `key`, until bound anew
  const V unit_queries = unit_length(wide_queries), unit_keys = unit_length(wide_keys);
  const double scale = 1.0 / std::sqrt(static_cast<double>(spec_.delta->key_dim));
  const V scaled = unary(OpKind::mul_scalar, unit_queries, ir::Number{scale});
  const V queries = padded(scaled, 2), keys = padded(unit_keys, 2), values = padded(wide_values, 2);
  hold({scaled, unit_keys, wide_values});  // until all three are bound anew
  const V rate = padded(wide_rate, 2), decay = padded(by_head_first(in.decay), 2);
  hold({wide_rate});
  const auto times_rate = [&](V x) {
    return binary(OpKind::mul, x, p_.reshape(rate, row_of(shape(x))));
  };
  const V written = times_rate(values), written_keys = times_rate(keys);
  const V q = in_chunks(queries), k = in_chunks(keys), k_beta = in_chunks(written_keys),
          v_beta = in_chunks(written);
  const Shape s{shape(k)[0], shape(k)[1], shape(k)[2], chunk_tokens};
  const V steps = p_.reshape(decay, s, p_.value(decay).permuted);
  const V ones = make_int(OpKind::fill, {chunk_tokens, chunk_tokens}, DType::u8, {});
  const V later = make_int(OpKind::triangle, {chunk_tokens, chunk_tokens}, DType::u8, {ones});
  const Shape pairs{s[0], s[1], s[2], chunk_tokens, chunk_tokens};
  const V sums = out(s, DType::f32, grad(steps));  // `cum_decay`
  emit(OpKind::cumsum, {steps}, {sums});
  const V apart = out(pairs, DType::f32, grad(steps));
  emit(OpKind::add,
       {p_.reshape(sums, {s[0], s[1], s[2], s[3], 1}),
        p_.reshape(sums, {s[0], s[1], s[2], 1, s[3]})},
       {apart}, ir::Add{-1.0});
  const V earlier = out(pairs, DType::f32, grad(steps));
  emit(OpKind::masked_fill, {apart, later}, {earlier});
  const V pairwise = unary(OpKind::exp_of, earlier);
  const auto within_chunks = [&](V a) {
    return binary(OpKind::mul, product_of(a, k, pairs, Form::nt), pairwise);
  };
  const V system = within_chunks(k_beta), attention = within_chunks(q);
  const V decayed_keys = decayed(k_beta, unary(OpKind::exp_of, sums));
  const auto solved = [&](V right) {
    const V y = out(shape(right), DType::f32, grad(system) || grad(right));
    p_.value(y).permuted = true;  // column by column
    emit(OpKind::solve_triangular, {system, right}, {y},
         ir::Product{static_cast<std::int32_t>(chunk_tokens)});
    return y;
  };
  DeltaChunks c;
  c.values = solved(v_beta);
  c.keys_of_state = solved(decayed_keys);
  frame = {values, rate,     decay,  v_beta,    k_beta,      later,
           sums,   pairwise, system, attention, decayed_keys};
  c.attention = attention;
  c.queries = q, c.keys = k, c.decay = sums;
  return c;
}

/// The scan: (B, heads, chunks, 64, value_dim), each chunk's part written into it.
ir::ValueId Lowering::delta_scan(const DeltaChunks& c, std::vector<V>& frame) {
  const Shape s = shape(c.values);
  const std::int64_t key = spec_.delta->key_dim;
  const Shape state_size{s[0], s[1], key, s[4]}, chunk_size{s[0], s[1], s[3], s[4]};
  V state = make_int(OpKind::fill, state_size, DType::f32, {});
  V core = make_int(OpKind::fill, s, DType::f32, {});
  p_.value(core).permuted = true;  // as the values
  const V queries = decayed(c.queries, unary(OpKind::exp_of, c.decay));
  hold({c.queries});
  const V last = slice_last(c.decay, 1, static_cast<std::int32_t>(chunk_tokens - 1));
  const V left = binary(OpKind::add, last, c.decay, ir::Add{-1.0});
  const V keys = decayed(c.keys, unary(OpKind::exp_of, left));
  hold({c.keys});
  const V ends = slice_last(c.decay, 1, static_cast<std::int32_t>(chunk_tokens - 1));
  const V chunk_decay = p_.reshape(unary(OpKind::exp_of, ends), {s[0], s[1], s[2], 1, 1});
  V inter = ir::no_id, fresh = ir::no_id;
  const bool trained = grad(c.values) || grad(c.decay);
  for (std::int64_t i = 0; i < s[2]; ++i) {
    const V values = chunk_of(c.values, i), of_state = chunk_of(c.keys_of_state, i);
    const V known = product_of(of_state, state, chunk_size, Form::nn);
    const V before = fresh;
    fresh = binary(OpKind::add, values, known, ir::Add{-1.0});  // `v_new`
    hold({before});
    const V read = product_of(chunk_of(queries, i), state, chunk_size, Form::nn);
    hold({inter});  // `inter_chunk_attn`, until it is bound anew
    inter = read;
    const V intra = product_of(chunk_of(c.attention, i), fresh, chunk_size, Form::nn);
    const V sum = binary(OpKind::add, inter, intra);
    const V written = p_.on_storage_of(core, s, DType::f32, true);
    p_.value(written).requires_grad = trained;
    p_.value(written).permuted = true;
    emit(OpKind::copy_part, {core, sum}, {written}, ir::Slice{static_cast<std::int32_t>(i), 2});
    core = written;
    const V kept = binary(OpKind::mul, state, chunk_of(chunk_decay, i));
    p_.value(kept).requires_grad = trained;
    // keys transposed: (key_dim, 64)
    const V added = product_of(chunk_of(keys, i), fresh, state_size, Form::nn);
    const V before_it = state;
    state = binary(OpKind::add, kept, added);
    hold({before_it});  // `last_recurrent_state`, until it is bound anew
  }
  frame.insert(frame.end(), {queries, keys, c.values, c.keys_of_state, chunk_decay, fresh, inter});
  return core;
}

ir::ValueId Lowering::delta_rule(const DeltaInputs& in) {
  leaf_ = Module::delta_rule;
  std::vector<V> frame;
  const DeltaChunks chunks = delta_chunks(in, frame);
  const V core = delta_scan(chunks, frame);
  const Shape s = shape(core);
  const std::int64_t tokens = config_.run.seq, padded_tokens = s[2] * s[3];
  const Shape joined{s[0], s[1], padded_tokens, s[4]};
  V flat = p_.reshape(core, joined, true);
  if (s[2] > 1) {  // reshape, of columns
    flat = out(joined, DType::f32, grad(core));
    emit(OpKind::clone, {core}, {flat});
  }
  const V cut =
      padded_tokens == tokens ? flat : sliced(flat, {s[0], s[1], tokens, s[4]}, ir::Slice{0, 2});
  const V y = out({s[0], tokens, s[1], s[4]}, dtype(in.rate), grad(core));
  emit(OpKind::cast, {p_.reshape(cut, shape(y), true)}, {y});
  hold_all(frame);
  return y;
}

}  // namespace ac_advisor::passes
