#include "emission.hpp"

#include <algorithm>
#include <iterator>

namespace ac_advisor::passes {

using ir::Comparison;
using ir::OpKind;
using ir::Role;
using ir::Shape;

ir::ValueId Emission::out(const Shape& shape, DType dtype, bool requires_grad) {
  // torch.no_grad() is around all that the reference does.
  const bool recorded = requires_grad && owner_ == ir::Owner::policy;
  const V v = p_.make(shape, dtype, Role::activation, at(leaf_), recorded);
  p_.value(v).distributed = distributed_;
  return v;
}

ir::OpId Emission::emit(OpKind kind, std::initializer_list<V> inputs,
                        std::initializer_list<V> outputs, const ir::Attributes& attributes) {
  return p_.emit(kind, phase_, at(leaf_), inputs, outputs, attributes);
}

ir::ValueId Emission::make_int(OpKind kind, const Shape& size, DType type,
                               std::initializer_list<V> inputs, const ir::Attributes& attributes) {
  const V v = out(size, type, false);
  emit(kind, inputs, {v}, attributes);
  return v;
}

ir::ValueId Emission::added_in_place(V to, V what, const ir::Attributes& attributes) {
  const V sum = p_.on_storage_of(to, shape(to), dtype(to), true);
  p_.value(sum).requires_grad = grad(to) || grad(what);
  emit(OpKind::add, {to, what}, {sum}, attributes);
  return sum;
}

void Emission::hold(std::initializer_list<V> values) {
  std::vector<V> there;
  std::copy_if(values.begin(), values.end(), std::back_inserter(there),
               [](V v) { return v != ir::no_id; });
  hold_all(there);
}

void Emission::hold_all(const std::vector<V>& values) {
  if (!values.empty()) p_.emit(OpKind::hold, phase_, at(leaf_), values, std::vector<V>{});
}

ir::ValueId Emission::dropped(V x, double probability) {
  if (probability == 0.0) return x;
  // dropout_cuda (aten/src/ATen/native/cuda/Dropout.cu) makes the mask before the output
  const V empty = make_int(OpKind::empty, shape(x), DType::u8, {});
  const V mask = p_.on_storage_of(empty, shape(x), DType::u8, true);
  const V kept = out(shape(x), dtype(x), grad(x));
  emit(OpKind::dropout, {x, empty}, {kept, mask}, ir::Dropout{probability, block_});
  return kept;
}

ir::ValueId Emission::node(OpKind kind, const std::vector<V>& inputs, V made,
                           ir::CompiledGraph backward) {
  const ir::Value like = p_.value(made);
  const V y = p_.on_storage_of(made, like.shape, like.dtype, false);
  p_.value(y).requires_grad = true;
  backward.given = static_cast<std::int32_t>(inputs.size()) + 1;
  p_.compiled.push_back(std::move(backward));
  p_.emit(kind, phase_, at(leaf_), inputs, std::vector<V>{y},
          ir::CompiledUnit{static_cast<std::int32_t>(p_.compiled.size()) - 1});
  return y;
}

ir::ValueId Emission::repeated(V x, std::size_t dim, std::int64_t times) {
  if (times == 1) return x;
  const Shape s = shape(x);
  std::vector<std::int64_t> sizes(s.sizes().begin(), s.sizes().end());
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, times);
  const V wide = p_.on_storage_of(x, Shape(sizes), dtype(x), false);
  emit(OpKind::expand, {x}, {wide});
  const V copy = out(shape(wide), dtype(x), grad(x));
  emit(OpKind::clone, {wide}, {copy});
  Shape all = s;
  all.set(dim, s[dim] * times);
  return p_.reshape(copy, all);
}

ir::OwnRows Emission::own_rows(V indices, std::int64_t rows, std::int64_t rank) {
  const Shape s = shape(indices);
  const ir::OwnRows own =
      ir::write_own_rows(indices, rows, rank,
                         [&](OpKind kind, std::initializer_list<V> in, DType type,
                             const ir::Attributes& a) { return make_int(kind, s, type, in, a); });
  zero_elsewhere(own.rows, own.elsewhere);
  return own;
}

void Emission::zero_elsewhere(V x, V elsewhere) {
  emit(OpKind::mask_shard, {x, elsewhere}, {p_.on_storage_of(x, shape(x), dtype(x), true)});
}

}  // namespace ac_advisor::passes
