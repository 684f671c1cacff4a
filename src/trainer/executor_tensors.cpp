// The tensors of a step: each storage allocated when an op first puts it out, released where the
// schedule frees it; views made on demand; what a collective still fills, waited for.
#include <fmt/format.h>

#include <stdexcept>

#include "ac_advisor/ir/op_table.hpp"
#include "trainer/executor.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/kernels/kernels.hpp"

namespace ac_advisor::trainer {
namespace {

using ir::no_id;
using ir::OpId;
using ir::StorageId;
using ir::ValueId;

std::size_t at_index(std::int32_t id) { return static_cast<std::size_t>(id); }

/// A fault of this program, never of its user.
[[noreturn]] void broken(const ir::Program& p, ValueId v, const char* what) {
  const ir::Value& value = p.value(v);
  throw std::logic_error(fmt::format("value {} {}: {}", v, ir::to_string(value.shape), what));
}

/// What lies in `whole`'s memory, seen in the value's shape and layout.
at::Tensor in_layout(const at::Tensor& whole, const ir::Value& value) {
  const ir::Shape& shape = value.shape;
  const bool heads_first = value.permuted && shape.rank() == 4;
  if (!heads_first && whole.is_contiguous()) return whole.view(sizes(shape));
  const at::Tensor flat = whole.as_strided({whole.numel()}, {1});
  if (!heads_first) return flat.view(sizes(shape));
  return flat.view({shape[0], shape[2], shape[1], shape[3]}).transpose(1, 2);
}

/// The value's sequences lie inside of so many of its other dimensions, in the order of their own.
at::Tensor with_batch_inside(const at::Tensor& base, const ir::Value& value) {
  std::vector<std::int64_t> order;  // in memory
  for (std::int64_t dim = 1; dim < static_cast<std::int64_t>(value.shape.rank()); ++dim)
    order.push_back(dim);
  order.insert(order.begin() + value.batch_at, 0);
  std::vector<std::int64_t> in_memory, back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    in_memory.push_back(value.shape[static_cast<std::size_t>(order[i])]);
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return base.view(in_memory).permute(back);
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return at::kBFloat16;
    case DType::f32:
      return at::kFloat;
    case DType::i64:
      return at::kLong;
    case DType::i32:
      return at::kInt;
    case DType::u8:
      return at::kByte;
    case DType::f16:
      return at::kHalf;
    case DType::f8:
      return at::kFloat8_e4m3fn;
  }
  return at::kFloat;
}

at::IntArrayRef sizes(const ir::Shape& shape) {
  return {shape.sizes().data(), shape.sizes().size()};
}

// --- what a kernel sees ------------------------------------------------------------------------

at::Tensor Call::in(std::size_t i) const {
  return executor_.tensor(executor_.step().program.input(op_, i));
}
at::Tensor Call::out(std::size_t i) const { return executor_.output(op_, i); }
void Call::set_view(std::size_t i, const at::Tensor& view) const {
  executor_.bind(executor_.step().program.output(op_, i), view);
}
void Call::adopt(std::size_t i, const at::Tensor& made) const {
  executor_.adopt(executor_.step().program.output(op_, i), made);
}
const ir::Value& Call::in_value(std::size_t i) const {
  const ir::Program& p = executor_.step().program;
  return p.value(p.input(op_, i));
}
const ir::Value& Call::out_value(std::size_t i) const {
  const ir::Program& p = executor_.step().program;
  return p.value(p.output(op_, i));
}
ir::StorageId Call::in_storage(std::size_t i) const {
  const ir::Program& p = executor_.step().program;
  return p.storage_of(p.input(op_, i));
}
ir::StorageId Call::out_storage(std::size_t i) const {
  const ir::Program& p = executor_.step().program;
  return p.storage_of(p.output(op_, i));
}
std::int64_t Call::out_bytes(std::size_t i) const {
  return executor_.step().program.storage(out_storage(i)).bytes;
}
const ir::Program& Call::program() const { return executor_.step().program; }
std::uint64_t Call::dropout_key() const {
  std::uint64_t key = executor_.step_key();
  for (const std::int64_t part : {executor_.micro(), executor_.collectives().rank()})
    key = combine(key, static_cast<std::uint64_t>(part));
  return combine(key, executor_.dropout_op(op_));
}

/// New memory for the storage of `v`, seen in v's shape and layout.
at::Tensor Executor::allocate(ValueId v) {
  const ir::Value& value = p_.value(v);
  const StorageId s = value.storage;
  const auto options =
      at::TensorOptions().dtype(scalar_type(value.dtype)).device(backend_.device());
  const ir::Shape& shape = value.shape;
  tracker_.set_storage(s);
  at::Tensor tensor;
  if (p_.storage(s).bytes != p_.bytes(v)) {  // gathered with padding behind it
    const std::int64_t elements = p_.storage(s).bytes / size_of(value.dtype);
    tensor = at::empty({elements}, options).narrow(0, 0, shape.numel()).view(sizes(shape));
  } else if (value.permuted && shape.rank() == 4) {
    tensor = at::empty({shape[0], shape[2], shape[1], shape[3]}, options).transpose(1, 2);
  } else {
    tensor = at::empty(sizes(shape), options);
  }
  tracker_.set_storage(no_id);
  tracker_.hold(s, p_.storage(s).bytes);
  alive_[at_index(s)] = true;
  whole_[at_index(s)] = tensor;
  return tensor;
}

at::Tensor Executor::output(const ir::Op& op, std::size_t i) {
  const ValueId v = p_.output(op, i);
  at::Tensor& tensor = tensors_[at_index(v)];
  if (tensor.defined()) return tensor;
  const StorageId s = p_.value(v).storage;
  if (!alive(s)) return tensor = allocate(v);
  if (p_.value(v).base != no_id) return this->tensor(v);  // a part of what there is
  // Written over an input (output i over the i-th that the row says it mutates), or over what the
  // storage held.
  std::size_t mutated = 0;
  for (std::size_t k = 0; k < op.inputs; ++k) {
    if ((ir::row(op.kind).mutates >> k & 1U) == 0 || mutated++ != i) continue;
    const ValueId in = p_.input(op, k);
    if (p_.storage_of(in) == s && p_.value(in).shape == p_.value(v).shape)
      return tensor = this->tensor(in);
  }
  const at::Tensor& whole = whole_[at_index(s)];
  for (std::size_t k = 0; k < op.inputs && whole.numel() != p_.value(v).shape.numel(); ++k) {
    const ValueId in = p_.input(op, k);  // a part of it that the op writes over
    if (p_.storage_of(in) == s && p_.value(in).shape == p_.value(v).shape)
      return tensor = this->tensor(in);
  }
  return tensor = in_layout(whole, p_.value(v));
}

void Executor::bind(ValueId v, const at::Tensor& tensor) { tensors_[at_index(v)] = tensor; }

void Executor::adopt(ValueId v, const at::Tensor& tensor) {
  const StorageId s = p_.value(v).storage;
  if (static_cast<std::int64_t>(tensor.storage().nbytes()) != p_.storage(s).bytes)
    broken(p_, v, "a kernel allocated other bytes than the program says");
  if (tensor.is_cpu())  // a device's blocks have no header of the tracker's
    tracker_.adopt(tensor.storage().mutable_data(), s);
  else
    tracker_.hold(s, p_.storage(s).bytes);
  alive_[at_index(s)] = true;
  whole_[at_index(s)] = tensor;
  tensors_[at_index(v)] = tensor;
}

at::Tensor Executor::view_of(const at::Tensor& base, ValueId of, ValueId v) const {
  const ir::Value &from = p_.value(of), &to = p_.value(v);
  if (to.narrow_dim >= 0)
    return base.narrow(to.narrow_dim, to.narrow_start,
                       to.shape[static_cast<std::size_t>(to.narrow_dim)]);
  if (to.batch_at > 0 && from.batch_at == 0) return with_batch_inside(base, to);
  if (from.shape == to.shape) return base;
  // Of a sum over each row's choices, [tokens, k, H] from [tokens, H].
  if (from.shape.numel() < to.shape.numel() && from.shape.rank() == 2 && to.shape.rank() == 3 &&
      from.shape[0] == to.shape[0])
    return base.unsqueeze(1).expand(sizes(to.shape));
  if (from.shape.numel() < to.shape.numel()) return base.expand(sizes(to.shape));
  if (from.permuted && !to.permuted && base.dim() == 4)
    return base.transpose(1, 2).view(sizes(to.shape));
  if (!from.permuted && to.permuted && to.shape.rank() == 4)
    return base.view({to.shape[0], to.shape[2], to.shape[1], to.shape[3]}).transpose(1, 2);
  return base.view(sizes(to.shape));
}

at::Tensor Executor::seen_as(ValueId v, const at::Tensor& root) const {
  const ValueId base = p_.value(v).base;
  return base == no_id ? root : view_of(seen_as(base, root), base, v);
}

at::Tensor Executor::tensor(ValueId v) {
  at::Tensor& tensor = tensors_[at_index(v)];
  if (tensor.defined()) return tensor;
  const ir::Value& value = p_.value(v);
  if (value.base != no_id) return tensor = view_of(this->tensor(value.base), value.base, v);
  if (!alive(value.storage)) broken(p_, v, "is read before it is made, or after it was freed");
  return tensor = in_layout(whole_[at_index(value.storage)], value);
}

void Executor::allocate_residents() {
  const MemoryTracker::Scope scope(&tracker_);
  for (ValueId v : step_.resident) {
    const StorageId s = p_.storage_of(v);
    resident_[at_index(s)] = true;
    if (!alive(s)) tensors_[at_index(p_.root(v))] = allocate(p_.root(v)).zero_();
  }
}

void Executor::release(StorageId s) {
  if (!alive(s)) return;
  wait_for(s);
  for (std::int32_t i = values_begin_[at_index(s)]; i < values_begin_[at_index(s) + 1]; ++i)
    tensors_[at_index(values_of_[at_index(i)])].reset();
  whole_[at_index(s)].reset();
  alive_[at_index(s)] = false;
  tracker_.let_go(s);
}

void Executor::begin(std::unique_ptr<Pending> collective, const std::vector<StorageId>& storages) {
  if (!collective) return;
  const std::shared_ptr<Pending> shared = std::move(collective);
  for (const StorageId s : storages) {
    wait_for(s);
    begun_[at_index(s)] = shared;
    ++under_way_;
  }
}

void Executor::wait_for(StorageId s) {
  if (under_way_ == 0 || !begun_[at_index(s)]) return;
  const std::shared_ptr<Pending> collective = std::move(begun_[at_index(s)]);
  --under_way_;
  collective->wait();
}

void Executor::wait_for_operands(const ir::Op& op) {
  if (under_way_ == 0) return;
  for (const ValueId v : p_.inputs(op)) wait_for(p_.storage_of(v));
  for (const ValueId v : p_.outputs(op)) wait_for(p_.storage_of(v));
}

void Executor::wait_for_all() {
  for (std::size_t s = 0; under_way_ > 0 && s < begun_.size(); ++s)
    wait_for(static_cast<StorageId>(s));
}

void Executor::drop_survivors() {
  for (std::size_t s = 0; s < p_.storages.size(); ++s)
    if (!resident_[s]) release(static_cast<StorageId>(s));
}

void Executor::drop_made_between(OpId begin, OpId end) {
  for (OpId id = begin; id < end; ++id)
    for (ValueId v : p_.outputs(p_.op(id))) {
      const StorageId s = p_.storage_of(v);
      const ValueId root = p_.root(v);
      // Made here, not written over: version 0 is the storage's first.
      if (!resident_[at_index(s)] && p_.value(root).version == 0 &&
          schedule_.last_use[at_index(s)] == no_id)
        release(s);
      tensors_[at_index(v)].reset();
    }
}

}  // namespace ac_advisor::trainer
