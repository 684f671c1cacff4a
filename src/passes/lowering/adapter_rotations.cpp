// Linear layers whose input or output PEFT v0.21 rotates: OFT and RoAD.
#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Shape;

/// tuners/oft/layer.py, OFTRotationModule._cayley_batch: of each block's skew-symmetric matrix Q
/// the series 1 + 2 Q + 2 Q^2 + 2 Q^3 + Q^4, (blocks, width, width).
ir::ValueId Lowering::block_rotations(V vectors, std::int64_t blocks, std::int64_t width,
                                      const Linear& l) {
  const Shape size{blocks, width, width};
  const V zeros = make_int(OpKind::fill, size, DType::f32, {}, ir::Number{0.0});
  const V upper = p_.on_storage_of(zeros, size, DType::f32, true);
  p_.value(upper).requires_grad = true;
  emit(OpKind::index_put, {zeros, l.adapter[1], vectors}, {upper});
  const V skew = binary(OpKind::add, upper, upper, ir::Add{-1.0, true});
  hold({upper});  // `matrix`, until it is bound anew
  const V one = make_int(OpKind::eye, {width, width}, DType::f32, {});
  V sum = make_int(OpKind::clone, size, DType::f32, {one});
  const auto add = [&](V term, double times) { sum = added_in_place(sum, term, ir::Add{times}); };
  const auto product = [&](V a) {
    const V y = out(size, DType::f32, true);
    emit(OpKind::bmm, {a, skew}, {y}, ir::Product{static_cast<std::int32_t>(width), ir::Form::nn});
    return y;
  };
  add(skew, 2.0);
  const V square = product(skew);
  add(square, 2.0);
  const V cube = product(square);
  add(cube, 2.0);
  const V fourth = product(cube);
  add(fourth, 1.0);
  hold({skew, square, fourth});
  return sum;
}

/// OFT's Linear.forward: blocks of the input by a rotation each.
ir::ValueId Lowering::oft(V x, const Linear& l) {
  const std::int64_t width = config_.adapters.size, blocks = l.in / width;
  const Shape s = shape(x);
  const V in = cast(x, DType::f32);
  const V rotations = block_rotations(l.adapter[0], blocks, width, l);
  const Shape by_block{blocks, s[0] * s[1], width};
  const V parts = p_.on_storage_of(in, by_block, DType::f32, false);
  p_.value(parts).permuted = true;
  emit(OpKind::view, {in}, {parts});
  const V turned = out(by_block, DType::f32, true);
  emit(OpKind::bmm, {parts, rotations}, {turned},
       ir::Product{static_cast<std::int32_t>(width), ir::Form::nn});
  const V together = out(by_block, DType::f32, true);
  emit(OpKind::clone, {turned}, {together});
  hold({in, rotations, turned});  // the module's locals
  const V rotated = p_.reshape(together, s);
  const V y = base_linear(cast(rotated, dtype(x)), l);
  hold({x, rotated});  // the caller's argument, and `x`, bound anew
  return y;
}

/// tuners/road/layer.py, _apply_road: the output's groups of 64, their halves turned as rotary
/// positions turn them, by learned angles and lengths.
ir::ValueId Lowering::road(V x, const Linear& l) {
  constexpr std::int64_t half = 32;
  const V base = base_linear(x, l);
  const V wide = cast(base, DType::f32);
  const auto of_outputs = [&](V v) {
    if (config_.adapters.size != 1) return v;
    const std::int64_t groups = l.out / (2 * half);
    return p_.reshape(repeated(p_.reshape(v, {groups, half}), 0, 2), {l.out});
  };
  const V theta = of_outputs(l.adapter[0]), alpha = of_outputs(l.adapter[1]);
  const V cosine = unary(OpKind::cos, theta), sine = unary(OpKind::sin, theta);
  const V first = binary(OpKind::mul, alpha, cosine), second = binary(OpKind::mul, alpha, sine);
  const std::int64_t groups = shape(wide).numel() / (2 * half);
  const V grouped = p_.reshape(wide, {groups, 2, half});
  const auto side = [&](std::int32_t which) {
    return sliced(grouped, {groups, half}, ir::Slice{which, 1});
  };
  const V left = side(0), right = side(1);
  const V negated = unary(OpKind::neg, right);
  const V turned = out({groups, 2, half}, DType::f32, grad(wide));
  emit(OpKind::cat, {p_.reshape(negated, {groups, 1, half}), p_.reshape(left, {groups, 1, half})},
       {turned});
  const V rotated = p_.reshape(turned, shape(wide));
  const V direct = binary(OpKind::mul, wide, first), crossed = binary(OpKind::mul, rotated, second);
  const V sum = binary(OpKind::add, direct, crossed);
  hold({first, second, rotated, wide});  // _apply_road's locals, and its argument
  const V y = cast(sum, dtype(base));
  hold({x});  // the caller's argument
  return y;
}

}  // namespace ac_advisor::passes
