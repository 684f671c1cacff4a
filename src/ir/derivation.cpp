#include "ac_advisor/ir/derivation.hpp"

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

ValueId Derivation::make(const Shape& shape, DType dtype) {
  return p_.make(shape, dtype, Role::activation_grad, op().module);
}

ValueId Derivation::alias(ValueId base, const Shape& shape) { return p_.reshape(base, shape); }

ValueId Derivation::slice_of(ValueId base, const Shape& shape, const Slice& slice) {
  const auto last = static_cast<std::int32_t>(shape.rank()) - 1;
  if (slice.dim < 0) return p_.narrow(base, last, slice.start, shape.back());
  const auto dim = static_cast<std::size_t>(slice.dim);
  const bool selected = shape.rank() < p_.value(base).shape.rank();
  return p_.narrow(base, slice.dim, slice.start, selected ? 1 : shape[dim]);
}

ValueId Derivation::part(ValueId base, std::int32_t dim, std::int64_t start, std::int64_t size) {
  return p_.narrow(base, dim, start, size);
}

ValueId Derivation::within(ValueId buffer, const Shape& shape) {
  return p_.on_storage_of(buffer, shape, dtype(buffer), true);
}

void Derivation::emit_raw(OpKind kind, std::initializer_list<ValueId> inputs,
                          std::initializer_list<ValueId> outputs, const Attributes& attributes) {
  const OpId id = p_.emit(kind, Phase::backward, op().module, inputs, outputs, attributes);
  Op& made = p_.op(id);
  made.group = group_;
  made.forward = forward_;
}

ValueId Derivation::emit(OpKind kind, std::initializer_list<ValueId> inputs, const Shape& shape,
                         DType dtype, const Attributes& attributes) {
  const ValueId result = make(shape, dtype);
  const bool pointwise = row(kind).cost == CostClass::pointwise && kind != OpKind::slice_backward &&
                         kind != OpKind::clone;
  if (pointwise && inputs.size() > 0) set_permuted(result, permuted(*inputs.begin()));
  emit_raw(kind, inputs, {result}, attributes);
  return result;
}

ValueId Derivation::emit_list(OpKind kind, std::span<const ValueId> inputs, const Shape& shape,
                              DType dtype) {
  const ValueId result = make(shape, dtype);
  const OpId id =
      p_.emit(kind, Phase::backward, op().module, inputs, std::span<const ValueId>(&result, 1));
  p_.op(id).group = group_;
  p_.op(id).forward = forward_;
  return result;
}

ValueId Derivation::write_into(OpKind kind, ValueId target, std::initializer_list<ValueId> inputs) {
  const ValueId result = under_dispatch_mode_ ? make_like(target) : overwrite(target);
  emit_raw(kind, inputs, {result});
  return result;
}

ValueId Derivation::overwrite(ValueId target) {
  return p_.on_storage_of(target, shape(target), dtype(target), true);
}

}  // namespace ac_advisor::ir
