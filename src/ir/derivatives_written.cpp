// Derivatives of autograd functions that transformers writes itself (v5.23), and of what PyTorch's
// attention without a kernel is made of.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void safe_softmax(Derivation& d) {
  // inputs: probabilities, which rows are masked, scores; _softmax_backward_data by the result
  const ValueId scores = d.in(2);
  d.give(2,
         d.emit(OpKind::softmax_backward, {d.grad(), d.out()}, d.shape(scores), d.dtype(scores)));
}

void mul_of_view(Derivation& d) {
  // inputs: a view, which is overwritten, and what it is multiplied by, or by a number.
  // AsStridedBackward0 puts the view's gradient into zeros; CopySlices
  // (torch/csrc/autograd/functions/tensor.cpp, v2.11) copies it, clones the part, and copies what
  // the product's node makes of that back.
  const ValueId g = d.grad();
  const Shape shape = d.shape(g);
  const DType type = d.dtype(g);
  const ValueId zeros = d.emit(OpKind::fill, {}, shape, type);
  const ValueId strided = d.overwrite(zeros);
  d.emit_raw(OpKind::copy, {zeros, g}, {strided});
  const ValueId whole = d.emit(OpKind::clone, {strided}, shape, type);
  const ValueId part = d.emit(OpKind::clone, {whole}, shape, type);
  const ValueId product =
      d.inputs() == 1 ? d.emit(OpKind::mul_scalar, {part}, shape, type, d.attributes<Number>())
                      : d.emit(OpKind::mul, {part, d.in(1)}, shape, type);
  const ValueId written = d.overwrite(whole);
  d.emit_raw(OpKind::copy, {whole, product}, {written});
  d.give(0, written);
}

void recomputed_gelu(Derivation& d) {
  // inputs: x / 2, 1 + tanh(…), x; bloom_gelu_back, from x alone
  constexpr double root = 0.79788456, cubic = 0.044715, triple = 0.1070322243;
  const ValueId x = d.in(2), g = d.grad();
  const Shape shape = d.shape(x);
  const DType type = d.dtype(x);
  const auto times = [&](ValueId v, double by) {
    return d.emit(OpKind::mul_scalar, {v}, shape, type, Number{by});
  };
  const auto plus = [&](ValueId v, double number) {
    return d.emit(OpKind::add_scalar, {v}, shape, type, Number{number});
  };
  const auto product = [&](ValueId a, ValueId b) {
    return d.emit(OpKind::mul, {a, b}, shape, type);
  };
  const ValueId inner = times(x, root);
  const ValueId bent =
      d.emit(OpKind::tanh, {product(inner, plus(product(times(x, cubic), x), 1.0))}, shape, type);
  const ValueId half = times(x, 0.5);
  const ValueId falling = plus(product(bent, bent), 1.0);  // 1 - it
  const ValueId slope = plus(product(times(x, triple), x), root);
  const ValueId left = product(half, product(falling, slope));
  const ValueId right = times(plus(bent, 1.0), 0.5);
  const ValueId factor = d.emit(OpKind::add, {left, right}, shape, type, Add{});
  const ValueId given = product(factor, g);
  d.emit_raw(OpKind::hold, {bent, factor}, {});  // named to the function's end
  d.give(2, given);
}

void routing_multiplier(Derivation& d) {
  // inputs: scores [T, E], a weight [T, 1], its expert, gates [T, E], a third or one, and what the
  // unreached nodes of masking saved; PhimoeMultiplier.backward
  const ValueId g = d.grad(), weight = d.in(1), gates = d.in(3);
  const ValueId by_weight = d.emit(OpKind::mul, {g, weight}, d.shape(g), d.dtype(g));
  const ValueId minus =
      d.emit(OpKind::mul_scalar, {by_weight}, d.shape(g), d.dtype(g), Number{-1.0});
  const ValueId spread = d.emit(OpKind::mul, {gates, minus}, d.shape(gates), d.dtype(gates));
  const ValueId sum = d.overwrite(spread);
  d.emit_raw(OpKind::scatter, {spread, d.in(2), by_weight}, {sum});
  d.emit_raw(OpKind::hold, {d.in(5)}, {});
  d.give(0, sum);
}

}  // namespace ac_advisor::ir::derive
