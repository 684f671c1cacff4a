// Derivatives of lookups, matrix products, attention and losses.
#include "ac_advisor/ir/float8.hpp"
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {
namespace {

/// Rows and columns of a matrix product whose operands may carry leading dimensions.
std::int64_t last(const Derivation& d, ValueId v) { return d.shape(v).back(); }

}  // namespace

void embedding(Derivation& d) {
  // inputs: weight [V, H], ids
  if (!d.needs(0)) return;
  const auto [ranks, rank] = d.attributes<Embedding>();
  Shape table = d.shape(d.in(0));
  const std::int64_t rows = table[0];
  table.set(0, rows * ranks);
  const ValueId whole =
      d.emit(OpKind::embedding_backward, {d.grad(), d.in(1)}, table, d.dtype(d.in(0)));
  // DTensor's is of the whole table on every rank (v2.11, tensor/_ops/_embedding_ops.py): its part
  // is taken where the gradient is next needed as a shard.
  d.give(0, ranks == 1 ? whole : d.part(whole, 0, rank * rows, rows));
}

void mm(Derivation& d) {
  // inputs: x [.., K], w [N, K], or with Form::nn [K, N]; MmBackward0 computes mat2's gradient
  // first.
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const auto tokens = static_cast<std::int32_t>(d.shape(x).numel() / last(d, x));
  const auto columns = static_cast<std::int32_t>(last(d, g));
  const Product made = d.attributes<Product>();
  const bool input_first = made.form == Form::nn;
  if (d.needs(1)) {
    const Product product{tokens, Form::tn};
    d.give(1, input_first ? d.emit(OpKind::mm, {x, g}, d.shape(w), d.dtype(w), product)
                          : d.emit(OpKind::mm, {g, x}, d.shape(w), d.dtype(w), product));
  }
  if (d.needs(0))
    d.give(0, d.emit(OpKind::mm, {g, w}, d.shape(x), d.dtype(x),
                     Product{columns, input_first ? Form::nt : Form::nn}));
  if (made.saves_input) d.emit_raw(OpKind::hold, {x}, {});
}

void addmm(Derivation& d) {
  // inputs: bias [N], x [.., K], w [N, K]; AddmmBackward0: mat1, mat2, then self (the bias).
  const ValueId b = d.in(0), x = d.in(1), w = d.in(2), g = d.grad();
  const auto tokens = static_cast<std::int32_t>(d.shape(x).numel() / last(d, x));
  const auto columns = static_cast<std::int32_t>(last(d, g));
  if (d.needs(1))
    d.give(1, d.emit(OpKind::mm, {g, w}, d.shape(x), d.dtype(x), Product{columns, Form::nn}));
  if (d.needs(2))
    d.give(2, d.emit(OpKind::mm, {g, x}, d.shape(w), d.dtype(w), Product{tokens, Form::tn}));
  if (d.needs(0)) d.give(0, d.emit(OpKind::sum, {g}, d.shape(b), d.dtype(b)));
}

void mm_quantized(Derivation& d) {
  // inputs: x [.., K], what its product is made of, codes, scales, and of scales in 8 bits theirs
  // and their offset; bitsandbytes v0.50, autograd/_functions.py: the weight [N, K] once more in
  // the gradient's dtype, then the product.
  constexpr std::size_t codes = 2;
  if (!d.needs(0)) return;
  const ValueId x = d.in(0), g = d.grad();
  const auto columns = static_cast<std::int32_t>(last(d, g));
  const Dequantize of = d.attributes<QuantizedProduct>().of;
  const Shape whole{columns, last(d, x)};
  const ValueId bytes = d.in(codes), scales = d.in(codes + 1);
  const bool in_fp16 = d.attributes<QuantizedProduct>().in_fp16;
  const DType made = in_fp16 ? DType::f16 : d.dtype(x);
  ValueId w = of.nested ? d.emit(OpKind::dequantize,
                                 {bytes, scales, d.in(codes + 2), d.in(codes + 3)}, whole, made, of)
                        : d.emit(OpKind::dequantize, {bytes, scales}, whole, made, of);
  if (in_fp16) w = d.emit(OpKind::cast, {w}, whole, d.dtype(x));
  d.give(0, d.emit(OpKind::mm, {g, w}, d.shape(x), d.dtype(x), Product{columns, Form::nn}));
}

/// mx_mm.backward: the gradient by rows and the weight by columns, then the gradient and the input
/// by columns, two casts before each product; all of them live to its end.
void mx_linear(Derivation& d, Float8Writer& f) {
  using Along = Float8Writer::Along;
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const auto tokens = static_cast<std::int32_t>(d.shape(x).numel() / last(d, x));
  const auto columns = static_cast<std::int32_t>(last(d, g));
  const Float8Operand rows = f.mx_cast(g, Along::rows), weight = f.mx_cast(w, Along::columns);
  const ValueId of_input = f.mx_product(rows, weight, d.shape(x), d.dtype(x), {columns, Form::nn});
  const Float8Operand across = f.mx_cast(g, Along::columns), input = f.mx_cast(x, Along::columns);
  const ValueId of_weight = f.mx_product(across, input, d.shape(w), d.dtype(w), {tokens, Form::tn});
  f.hold({rows.data, rows.scale, weight.data, weight.scale, across.data, across.scale, input.data,
          input.scale, g, x, w});
  d.give(0, of_input);
  d.give(1, of_weight);
}

/// NoopFwToFloat8BwDynamic.backward (float8/float8_scaling_utils.py).
void gradient_in_float8(Derivation& d, Float8Writer& f) {
  d.give(0, f.cast(d.grad(), false, Float8Writer::Along::rows, true).data);
}

/// matmul_with_hp_or_float8_args.backward of DTensors that are in fp8 already, input and gradient.
void float8_linear_of_parts(Derivation& d, Float8Writer& f) {
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const auto tokens = static_cast<std::int32_t>(d.shape(x).numel() / last(d, x));
  const auto columns = static_cast<std::int32_t>(last(d, g));
  const DType type = d.dtype(d.in(2));
  const Float8Operand rows{g, float8_scale_of(d.program(), g)},
      input{x, float8_scale_of(d.program(), x)};
  const Float8Operand weight = d.inputs() > 3 ? Float8Operand{w, d.in(3)}
                                              : f.cast(w, true, Float8Writer::Along::columns, true);
  const ValueId of_input =
      f.product(rows, f.copied(weight), d.shape(x), type, {columns, Form::nn}, false);
  const Float8Operand turned = f.copied(rows);
  const ValueId of_weight =
      f.product(turned, f.copied(input), d.shape(w), type, {tokens, Form::tn}, false);
  f.hold({rows.data, rows.scale, weight.data, weight.scale, input.data, input.scale, w});
  d.give(0, of_input);
  d.give(1, of_weight);
}

/// matmul_with_hp_or_float8_args.backward: three casts for the first product, of the gradient and
/// the weight, two more for the second, of the gradient again and the input. What it makes lives in
/// its frame to its end.
void float8_linear(Derivation& d) {
  // inputs: x [.., K], w [N, K], their product; of a weight that was gathered in fp8 its scale. Of
  // the functions around a layer whose ranks have parts: x, and that in fp8, whose gradient is x's
  // own (_ToFloat8ConstrFunc); what is passed on, and its gradient in fp8.
  if (d.inputs() == 2) return d.give(0, d.grad());
  using Along = Float8Writer::Along;
  const auto how = d.attributes<Float8>();
  Float8Writer f(d.program(), Phase::backward, d.op().module, how.rowwise);
  f.set_node(d.group(), d.forward());
  if (d.inputs() == 1) return gradient_in_float8(d, f);
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  if (d.dtype(x) == DType::f8) return float8_linear_of_parts(d, f);
  const auto tokens = static_cast<std::int32_t>(d.shape(x).numel() / last(d, x));
  const auto columns = static_cast<std::int32_t>(last(d, g));
  if (how.mx) return mx_linear(d, f);
  // A layer's input that ranks have gathered, or all have: they have parts of its columns, and with
  // them of the gradient. Of one that is split by inputs: parts of these.
  const bool parts = d.program().value(d.program().root(x)).distributed;
  const bool by_inputs = split_by_inputs(d.op().module.leaf);
  const Float8Operand rows = f.cast(g, false, Along::rows, parts && !by_inputs);
  const bool gathered = d.inputs() > 3;
  const Float8Operand weight =
      gathered ? Float8Operand{w, d.in(3)} : f.cast(w, true, Along::columns, parts);
  const ValueId of_input =
      f.product(rows, f.copied(weight), d.shape(x), d.dtype(x), {columns, Form::nn}, false);
  const bool one_scale = parts && !how.rowwise;
  const Float8Operand across = f.cast(g, false, Along::columns, one_scale && !by_inputs);
  const Float8Operand input = f.cast(x, false, Along::columns, one_scale && by_inputs);
  const Float8Operand turned = f.copied(across);
  const ValueId of_weight =
      f.product(turned, f.copied(input), d.shape(w), d.dtype(x), {tokens, Form::tn}, false);
  f.hold({rows.data, rows.scale, weight.data, weight.scale, across.data, across.scale, input.data,
          input.scale, g, x, w});
  d.give(0, of_input);
  d.give(1, of_weight);
}

void bmm(Derivation& d) {
  // inputs: a [B, h, M, K], b [B, h, K, N], or with Form::nt [B, h, N, K]
  const ValueId a = d.in(0), b = d.in(1), g = d.grad();
  const Shape sa = d.shape(a), sg = d.shape(g);
  const auto n = static_cast<std::int32_t>(sg.back());
  const auto m = static_cast<std::int32_t>(sa[sa.rank() - 2]);
  const bool transposed = d.attributes<Product>().form == Form::nt;
  if (d.needs(1)) {
    const Product product{m, Form::tn};
    d.give(1, transposed ? d.emit(OpKind::bmm, {g, a}, d.shape(b), d.dtype(b), product)
                         : d.emit(OpKind::bmm, {a, g}, d.shape(b), d.dtype(b), product));
  }
  if (d.needs(0))
    d.give(0, d.emit(OpKind::bmm, {g, b}, sa, d.dtype(a),
                     Product{n, transposed ? Form::nn : Form::nt}));
}

void baddbmm(Derivation& d) {
  // inputs: bias, a [B, h, M, K], b [B, h, N, K], or with Form::nn [B, K, N]; BaddbmmBackward0:
  // batch1, then batch2, each multiplied by alpha. The bias needs no gradient: it is made of
  // positions, or a frozen weight.
  const ValueId a = d.in(1), b = d.in(2), g = d.grad();
  const Shape sa = d.shape(a), sg = d.shape(g);
  const Number alpha{d.attributes<Product>().alpha};
  const auto scaled = [&](ValueId product) {
    return d.emit(OpKind::mul_scalar, {product}, d.shape(product), d.dtype(product), alpha);
  };
  const Product forward = d.attributes<Product>();
  const bool plain = forward.form == Form::nn;
  if (d.needs(1))
    d.give(1, scaled(d.emit(
                  OpKind::bmm, {g, b}, sa, d.dtype(a),
                  Product{static_cast<std::int32_t>(sg.back()), plain ? Form::nt : Form::nn})));
  if (!d.needs(2)) return;
  Product turned{static_cast<std::int32_t>(sa[sa.rank() - 2]), Form::tn};
  turned.copies_first = forward.copies_first;
  d.give(2, scaled(plain ? d.emit(OpKind::bmm, {a, g}, d.shape(b), d.dtype(b), turned)
                         : d.emit(OpKind::bmm, {g, a}, d.shape(b), d.dtype(b), turned)));
}

void grouped_mm(Derivation& d) {
  // inputs: rows [S, K] sorted by expert, weight [E, N, K], offsets [E]
  const ValueId x = d.in(0), w = d.in(1), offsets = d.in(2), g = d.grad();
  const Shape sx = d.shape(x), sw = d.shape(w);
  if (d.needs(1))
    d.give(1, d.emit(OpKind::grouped_mm, {g, x, offsets}, sw, d.dtype(w),
                     Product{static_cast<std::int32_t>(sx[0] / sw[0]), Form::tn}));
  if (d.needs(0))
    d.give(0, d.emit(OpKind::grouped_mm, {g, w, offsets}, sx, d.dtype(x),
                     Product{static_cast<std::int32_t>(d.shape(g).back()), Form::nn}));
}

void sdpa(Derivation& d) {
  // inputs: q, k, v, or a mask too; outputs: attention output, log-sum-exp, rng state, unused
  const ValueId q = d.in(0), k = d.in(1), v = d.in(2);
  const ValueId dq = d.make_like(q), dk = d.make_like(k), dv = d.make_like(v);
  // empty_like(q), …: in their layout
  d.set_permuted(dq, d.permuted(q));
  d.set_permuted(dk, d.permuted(k));
  d.set_permuted(dv, d.permuted(v));
  if (d.attributes<Sdpa>().kernel == SdpaKernel::efficient) {
    // the generator's state is two numbers on the host; gradients are laid out [B, S, heads, D]
    for (const ValueId gradient : {dq, dk, dv}) d.set_permuted(gradient, true);
    if (d.inputs() > 3)
      d.emit_raw(OpKind::sdpa_backward, {d.grad(), q, k, v, d.out(0), d.out(1), d.in(3)},
                 {dq, dk, dv}, d.attributes<Sdpa>());
    else
      d.emit_raw(OpKind::sdpa_backward, {d.grad(), q, k, v, d.out(0), d.out(1)}, {dq, dk, dv},
                 d.attributes<Sdpa>());
  } else if (d.attributes<Sdpa>().documents > 0)  // where they begin, of queries and of keys
    d.emit_raw(OpKind::sdpa_backward,
               {d.grad(), q, k, v, d.out(0), d.out(1), d.out(2), d.in(3), d.in(4)}, {dq, dk, dv},
               d.attributes<Sdpa>());
  else if (d.attributes<Sdpa>().kernel == SdpaKernel::flash_attn)
    d.emit_raw(OpKind::sdpa_backward, {d.grad(), q, k, v, d.out(0), d.out(1), d.out(2)},
               {dq, dk, dv}, d.attributes<Sdpa>());
  else if (d.inputs() > 3)
    d.emit_raw(OpKind::sdpa_backward,
               {d.grad(), q, k, v, d.out(0), d.out(1), d.out(2), d.out(3), d.in(3)}, {dq, dk, dv},
               d.attributes<Sdpa>());
  else
    d.emit_raw(OpKind::sdpa_backward, {d.grad(), q, k, v, d.out(0), d.out(1), d.out(2), d.out(3)},
               {dq, dk, dv}, d.attributes<Sdpa>());
  d.give(0, dq);
  d.give(1, dk);
  d.give(2, dv);
}

void log_softmax(Derivation& d) {
  d.give(0, d.emit(OpKind::log_softmax_backward, {d.grad(), d.out()}, d.shape(d.in(0)),
                   d.dtype(d.in(0))));
}

void nll_loss(Derivation& d) {
  // inputs: log-probabilities [N, V], targets; outputs: loss, total weight
  ValueId g = d.grad();
  if (d.attributes<NllLoss>().reduction == Reduction::none)  // one a token, made contiguous
    g = d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
  d.give(0, d.emit(OpKind::nll_loss_backward, {g, d.in(0), d.in(1), d.out(1)}, d.shape(d.in(0)),
                   d.dtype(d.in(0))));
}

void linear_cross_entropy(Derivation& d) {
  // inputs: hidden [N, H], weight [V, H], targets; outputs: loss, log-sum-exp [N].
  // Cut cross-entropy (Wijmans et al. 2024): logits are recomputed tile by tile in backward; both
  // gradients have their operand's dtype.
  const ValueId h = d.in(0), w = d.in(1);
  const ValueId dh = d.make(d.shape(h), d.dtype(h));
  if (!d.needs(1)) {
    d.emit_raw(OpKind::linear_cross_entropy_backward, {d.grad(), h, w, d.in(2), d.out(1)}, {dh},
               d.attributes<LinearCrossEntropy>());
    d.give(0, dh);
    return;
  }
  const ValueId dw = d.make(d.shape(w), d.dtype(w));
  d.emit_raw(OpKind::linear_cross_entropy_backward, {d.grad(), h, w, d.in(2), d.out(1)}, {dh, dw},
             d.attributes<LinearCrossEntropy>());
  d.give(0, dh);
  d.give(1, dw);
}

void precomputed_grad(Derivation& d) {
  // inputs: hidden, weight, their gradients, which are scaled in place by the incoming one (as
  // Liger-Kernel's fused_linear_cross_entropy_backward does)
  const ValueId g = d.grad(), gh = d.in(2);
  const ValueId sh = d.overwrite(gh);
  d.emit_raw(OpKind::mul, {gh, g}, {sh});
  d.give(0, sh);
  if (d.op().inputs < 4) return;  // the weight is frozen
  const ValueId gw = d.in(3), sw = d.overwrite(gw);
  d.emit_raw(OpKind::mul, {gw, g}, {sw});
  d.give(1, sw);
}

void topk(Derivation& d) {
  // outputs: values, indices; value_selecting_reduction_backward: zeros, then scatter
  const ValueId zeros = d.emit(OpKind::fill, {}, d.shape(d.in(0)), d.dtype(d.in(0)));
  d.give(0, d.write_into(OpKind::scatter, zeros, {zeros, d.out(1), d.grad()}));
}

void max(Derivation& d) {
  // outputs: values and indices with a last dimension of one; as top-k's
  topk(d);
}

void scatter(Derivation& d) {
  // inputs: target, indices, and values where they need a gradient
  if (d.inputs() > 2 && d.needs(2))
    d.give(2, d.emit(OpKind::gather, {d.grad(), d.in(1)}, d.shape(d.in(2)), d.dtype(d.in(2))));
}

void gather(Derivation& d) {
  // of rows' entries by index; gather_backward: zeros, then scatter_add_
  const ValueId zeros = d.emit(OpKind::fill, {}, d.shape(d.in(0)), d.dtype(d.in(0)));
  d.give(0, d.write_into(OpKind::scatter, zeros, {zeros, d.in(1), d.grad()}));
}

void index(Derivation& d) {
  // rows gathered by an index: zeros of the source, then index_put_ with accumulation
  if (!d.needs(0)) return;
  const ValueId zeros = d.emit(OpKind::fill, {}, d.shape(d.in(0)), d.dtype(d.in(0)));
  d.give(0, d.write_into(OpKind::index_backward, zeros, {zeros, d.in(1), d.grad()}));
}

void index_put(Derivation& d) {
  // inputs: what is written over, places, rows; rows twice: index_copy, whose gradient is expanded
  // as they are, which saves them
  if (d.needs(0)) {
    const ValueId copy = d.emit(OpKind::clone, {d.grad()}, d.shape(d.in(0)), d.dtype(d.in(0)));
    const ValueId cleared = d.overwrite(copy);
    d.emit_raw(OpKind::index_fill, {copy, d.in(1)}, {cleared});
    d.give(0, cleared);
  }
  if (!d.needs(2)) return;
  if (d.inputs() > 3) d.emit_raw(OpKind::hold, {d.in(3)}, {});
  d.give(2, d.emit(OpKind::index, {d.grad(), d.in(1)}, d.shape(d.in(2)), d.dtype(d.in(2))));
}

}  // namespace ac_advisor::ir::derive
