#include "ac_advisor/ir/program.hpp"

#include <stdexcept>
#include <string>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

void wrong_attributes(OpKind kind) {
  throw std::logic_error(std::string(row(kind).name) + " has other attributes");
}

ValueId Program::make(const Shape& shape, DType dtype, Role role, ModulePath module,
                      bool requires_grad) {
  const auto id = static_cast<ValueId>(values.size());
  const auto storage = static_cast<StorageId>(storages.size());
  storages.push_back({checked_mul(shape.numel(), size_of(dtype)), role, module});
  Value value;
  value.shape = shape;
  value.dtype = dtype;
  value.requires_grad = requires_grad;
  value.storage = storage;
  values.push_back(value);
  return id;
}

ValueId Program::reshape(ValueId base, const Shape& shape, bool permuted) {
  const auto id = static_cast<ValueId>(values.size());
  Value view = value(base);
  view.shape = shape;
  view.permuted = permuted;
  view.base = base;
  view.narrow_dim = -1;
  view.narrow_start = 0;
  values.push_back(view);
  return id;
}

ValueId Program::narrow(ValueId base, std::int32_t dim, std::int64_t start, std::int64_t size) {
  Shape part = value(base).shape;
  part.set(static_cast<std::size_t>(dim), size);
  const ValueId id = reshape(base, part, value(base).permuted);
  value(id).narrow_dim = static_cast<std::int8_t>(dim);
  value(id).narrow_start = start;
  return id;
}

ValueId Program::on_storage_of(ValueId base, const Shape& shape, DType dtype, bool bump) {
  const auto id = static_cast<ValueId>(values.size());
  Value result = value(base);
  result.shape = shape;
  result.dtype = dtype;
  result.base = no_id;
  result.narrow_dim = -1;
  result.narrow_start = 0;
  result.producer = no_id;
  if (bump) ++result.version;
  values.push_back(result);
  return id;
}

std::vector<ValueId> Program::values_of(const CompiledGraph& graph, std::vector<ValueId>& known,
                                        std::span<const std::int32_t> numbers) {
  std::vector<ValueId> list;
  for (const std::int32_t n : numbers) {
    ValueId& v = known[static_cast<std::size_t>(n)];
    if (v == no_id && n >= graph.given) {
      const CompiledGraph::Made& made = graph.made[static_cast<std::size_t>(n - graph.given)];
      v = reshape(known[static_cast<std::size_t>(made.of)], made.shape, made.permuted);
    }
    list.push_back(v);
  }
  return list;
}

void Program::own_bodies(CompiledGraph& graph) {
  const auto first = static_cast<std::int32_t>(bodies.size());
  for (CompiledGraph::Launch& launch : graph.launches)
    if (auto* generated = std::get_if<Generated>(&launch.attributes);
        generated != nullptr && generated->body >= 0)
      generated->body += first;
  for (GeneratedBody& body : graph.bodies) bodies.push_back(std::move(body));
  graph.bodies.clear();
}

OpId Program::emit(OpKind kind, Phase phase, ModulePath module, std::span<const ValueId> inputs,
                   std::span<const ValueId> outputs, const Attributes& attributes) {
  const auto id = static_cast<OpId>(ops.size());
  Op op;
  op.kind = kind;
  op.phase = phase;
  op.module = module;
  op.inputs = static_cast<std::uint16_t>(inputs.size());
  op.outputs = static_cast<std::uint16_t>(outputs.size());
  op.first_operand = static_cast<std::int32_t>(operands.size());
  op.group = id;
  op.attributes = attributes.index() == 0 ? row(kind).attributes : attributes;
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  for (ValueId v : outputs) value(v).producer = id;
  ops.push_back(op);
  return id;
}

}  // namespace ac_advisor::ir
