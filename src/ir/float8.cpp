#include "ac_advisor/ir/float8.hpp"

namespace ac_advisor::ir {

ValueId Float8Writer::make(const Shape& shape, DType dtype, bool temporary) {
  const Role role = temporary                   ? Role::temporary
                    : phase_ == Phase::backward ? Role::activation_grad
                                                : Role::activation;
  return p_.make(shape, dtype, role, module_);
}

void Float8Writer::emit(OpKind kind, std::initializer_list<ValueId> inputs,
                        std::initializer_list<ValueId> outputs, const Attributes& attributes) {
  Op& op = p_.op(p_.emit(kind, phase_, module_, inputs, outputs, attributes));
  if (forward_ == no_id) return;
  op.group = group_;
  op.forward = forward_;
}

ValueId Float8Writer::pointwise(OpKind kind, std::initializer_list<ValueId> inputs, DType dtype,
                                const Attributes& attributes) {
  const Value like = p_.value(*inputs.begin());
  const ValueId y = make(like.shape, dtype);
  p_.value(y).permuted = like.permuted;
  emit(kind, inputs, {y}, attributes);
  return y;
}

Float8Operand Float8Writer::cast(ValueId x, bool transposed, Along along, bool shared) {
  const Shape shape = p_.value(x).shape;
  const std::int64_t columns = shape.back(), rows = shape.numel() / columns;
  const DType type = p_.value(x).dtype;
  // tensor_to_amax
  const ValueId magnitudes = pointwise(OpKind::abs, {x}, type);
  Shape scales;
  if (rowwise_) scales = along == Along::rows ? Shape{rows, 1} : Shape{1, columns};
  const ValueId largest = make(scales, type);
  if (transposed && !rowwise_) {  // max_all copies what is not contiguous (ReduceAllOps.cpp)
    const ValueId contiguous = make(shape, type, true);
    emit(OpKind::fp8_amax, {magnitudes}, {largest, contiguous}, Float8{rowwise_, true});
  } else {
    emit(OpKind::fp8_amax, {magnitudes}, {largest}, Float8{rowwise_});
  }
  // amax_to_scale: four tensors of fp64, which has the size of int64, and what they end in
  const ValueId scale = make(scales, DType::f32);
  const ValueId wide = make(scales, DType::i64, !shared), clamped = make(scales, DType::i64, true),
                inverse = make(scales, DType::i64, true), times = make(scales, DType::i64, true);
  if (shared) {  // the clamp has DTensor reduce it
    const ValueId reduced = make(scales, DType::i64);
    emit(OpKind::cast, {largest}, {wide}, {});
    emit(OpKind::tp_all_reduce, {wide}, {reduced}, TpReduce{true});
    emit(OpKind::fp8_scale, {reduced}, {scale, clamped, inverse, times}, Float8{rowwise_});
  } else {
    emit(OpKind::fp8_scale, {largest}, {scale, wide, clamped, inverse, times}, Float8{rowwise_});
  }
  // _ToFloat8ConstrFunc, whose frame has the scaled tensor until to_fp8_saturated returns
  const ValueId f32 = type == DType::f32 ? x : pointwise(OpKind::cast, {x}, DType::f32);
  const ValueId scaled = pointwise(OpKind::mul, {f32, scale}, DType::f32);
  const ValueId saturated = pointwise(OpKind::clamp, {scaled}, DType::f32);
  const ValueId data = pointwise(OpKind::cast, {saturated}, DType::f8);
  hold({saturated});
  hold({scaled});
  return {data, scale};
}

ValueId float8_scale_of(const Program& program, ValueId data) {
  for (;;) {
    const Op& op = program.op(program.value(program.root(data)).producer);
    if (op.kind == OpKind::mul) return program.input(op, 1);
    data = program.input(op, op.kind == OpKind::float8_linear ? 1 : 0);
  }
}

Float8Operand Float8Writer::copied(const Float8Operand& x) {
  return {pointwise(OpKind::clone, {x.data}, DType::f8), x.scale};
}

ValueId Float8Writer::product(const Float8Operand& a, const Float8Operand& b, const Shape& shape,
                              DType dtype, const Product& product, bool fast) {
  ValueId scales = no_id;
  if (rowwise_ && !fast) {
    scales = make(shape, DType::f32);
    emit(OpKind::mul, {a.scale, b.scale}, {scales});
  }
  const ValueId y = make(shape, dtype);
  if (scales == no_id)
    emit(OpKind::scaled_mm, {a.data, b.data, a.scale, b.scale}, {y}, product);
  else
    emit(OpKind::scaled_mm, {a.data, b.data, a.scale, b.scale, scales}, {y}, product);
  return y;
}

}  // namespace ac_advisor::ir
