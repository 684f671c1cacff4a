// Derivatives of what a gated delta net is written with (v2.11: derivatives.yaml,
// FunctionsManual.cpp).
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void exp_of(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::mul, {g, d.out()}, d.shape(g), d.dtype(g)));
}

void softplus(Derivation& d) {  // and log_sigmoid, whose backward is a kernel of the same two
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::softplus_backward, {g, d.in(0)}, d.shape(g), d.dtype(g)));
}

void logarithm(Derivation& d) {  // grad.div(self)
  const ValueId x = d.in(0), g = d.grad();
  d.give(0, d.emit(OpKind::div, {g, x}, d.shape(x), d.dtype(g)));
}

void pad(Derivation& d) {  // by as much less
  const ValueId x = d.in(0), g = d.grad();
  d.give(0, d.emit(OpKind::pad, {g}, d.shape(x), d.dtype(g)));
}

void masked_fill(Derivation& d) {
  // inputs: x, which places are filled
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::masked_fill, {g, d.in(1)}, d.shape(g), d.dtype(g)));
}

void cumsum(Derivation& d) {  // from the other end
  const ValueId g = d.grad();
  const Shape shape = d.shape(g);
  const DType type = d.dtype(g);
  const ValueId turned = d.emit(OpKind::flip, {g}, shape, type);
  const ValueId sums = d.emit(OpKind::cumsum, {turned}, shape, type);
  d.give(0, d.emit(OpKind::flip, {sums}, shape, type));
}

void solve_triangular(Derivation& d) {
  // inputs: A [.., N, N], B [.., N, K]; linalg_solve_triangular_backward by A and the result. What
  // A's other triangle and its diagonal of ones get is cut off.
  const ValueId a = d.in(0), b = d.in(1), g = d.grad();
  const ValueId of_b =
      d.emit(OpKind::solve_triangular, {a, g}, d.shape(b), d.dtype(b), d.attributes<Product>());
  d.set_permuted(of_b, true);
  const Shape square = d.shape(a);
  const ValueId product = d.emit(OpKind::bmm, {of_b, d.out()}, square, d.dtype(a),
                                 Product{static_cast<std::int32_t>(d.shape(b).back()), Form::nt});
  const ValueId minus = d.emit(OpKind::neg, {product}, square, d.dtype(a));
  d.give(0, d.emit(OpKind::triangle, {minus}, square, d.dtype(a)));
  d.give(1, of_b);
}

void depthwise_conv(Derivation& d) {
  // inputs: x (B, channels, tokens), weight [channels, 1, taps], and a contiguous copy of x, which
  // is not saved
  const ValueId x = d.in(0), w = d.in(1);
  const ValueId dx = d.make_like(x), dw = d.make_like(w);
  d.emit_raw(OpKind::depthwise_conv_backward, {d.grad(), x, w}, {dx, dw});
  d.give(0, dx);
  d.give(1, dw);
}

}  // namespace ac_advisor::ir::derive
