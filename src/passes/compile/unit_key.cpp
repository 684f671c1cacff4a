#include "unit_key.hpp"

#include <unordered_map>
#include <variant>

#include "ir/attribute_fields.hpp"

namespace ac_advisor::passes::compile {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

void KeyText::add(const ir::Attributes& attributes) {
  add(static_cast<std::uint8_t>(attributes.index()));
  std::visit(
      [&](const auto& a) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(a)>, std::monostate>)
          ir::for_each_field(a, [&](const auto& field) { add(field); });
      },
      attributes);
}

void KeyText::add(const ir::Shape& shape) {
  add(static_cast<std::uint8_t>(shape.rank()));
  for (const std::int64_t size : shape.sizes()) add(size);
}

namespace {

void add_op(KeyText& key, const Op& op) {
  key.add(op.kind);
  // Which block a dropout's numbers are of is no part of its graph.
  if (op.kind == OpKind::dropout)
    key.add(ir::attributes<ir::Dropout>(op).probability);
  else
    key.add(op.attributes);
  key.add(op.kept);
}

/// Values and storages by numbers of their own, in the order in which they are met.
class WholeKey {
 public:
  WholeKey(const ir::Program& program, OpId first) : p_(program), first_(first) {}

  std::string of(OpId end) {
    for (OpId id = first_; id < end; ++id) {
      const Op& op = p_.op(id);
      if (op.kind == OpKind::hold) continue;
      add_op(key_, op);
      key_.add(op.module.leaf);
      key_.add(op.region >= 0);
      key_.add(op.inputs);
      key_.add(op.outputs);
      for (const ValueId v : p_.inputs(op)) add_value(v);
      for (const ValueId v : p_.outputs(op)) add_value(v);
    }
    return key_.text();
  }

 private:
  void add_value(ValueId v) {
    const auto [at, is_new] = values_.try_emplace(v, static_cast<std::int32_t>(values_.size()));
    key_.add(at->second);
    if (!is_new) return;
    const ir::Value& value = p_.value(v);
    key_.add(value.shape);
    key_.add(value.dtype);
    key_.add(value.requires_grad);
    key_.add(value.permuted);
    key_.add(value.distributed);
    key_.add(value.batch_at);
    key_.add(value.narrow_dim);
    key_.add(value.narrow_start);
    add_producer(value.producer);
    key_.add(value.base != no_id);
    if (value.base != no_id) return add_value(value.base);
    add_storage(value.storage);
  }

  /// Within the unit by its place, before it by what it is.
  void add_producer(OpId producer) {
    key_.add(producer >= first_ ? producer - first_ : no_id);
    key_.add(producer == no_id);
    if (producer == no_id || producer >= first_) return;
    add_op(key_, p_.op(producer));
    key_.add(p_.op(producer).module.leaf);
  }

  void add_storage(ir::StorageId s) {
    const auto [at, is_new] = storages_.try_emplace(s, static_cast<std::int32_t>(storages_.size()));
    key_.add(at->second);
    if (!is_new) return;
    key_.add(p_.storage(s).role);
    key_.add(p_.storage(s).module.leaf);
    key_.add(p_.storage(s).bytes);
  }

  const ir::Program& p_;
  OpId first_;
  KeyText key_;
  std::unordered_map<ValueId, std::int32_t> values_;
  std::unordered_map<ir::StorageId, std::int32_t> storages_;
};

}  // namespace

std::string signature(const ir::Program& p, OpId first, OpId end, std::vector<ValueId>& inputs) {
  KeyText key;
  std::unordered_map<ValueId, std::int32_t> seen;
  for (OpId id = first; id < end; ++id) {
    const Op& op = p.op(id);
    if (op.kind == OpKind::hold) continue;
    add_op(key, op);
    for (const ValueId v : p.inputs(op)) {
      const ValueId root = p.root(v);
      const auto [at, is_new] = seen.try_emplace(root, static_cast<std::int32_t>(seen.size()));
      const OpId producer = p.value(root).producer;
      if (is_new && (producer == no_id || producer < first)) inputs.push_back(root);
      const ir::Value& value = p.value(v);
      key.add(at->second);
      key.add(value.shape);
      key.add(value.dtype);
      key.add(value.requires_grad);
    }
    for (const ValueId v : p.outputs(op))
      seen.try_emplace(p.root(v), static_cast<std::int32_t>(seen.size()));
  }
  return key.text();
}

std::string whole_key(const ir::Program& program, OpId first, OpId end) {
  return WholeKey(program, first).of(end);
}

}  // namespace ac_advisor::passes::compile
