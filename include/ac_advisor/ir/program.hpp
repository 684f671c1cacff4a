#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ac_advisor/ir/attributes.hpp"
#include "ac_advisor/ir/compiled.hpp"
#include "ac_advisor/ir/module_path.hpp"
#include "ac_advisor/ir/op_kind.hpp"
#include "ac_advisor/ir/shape.hpp"

namespace ac_advisor::ir {

using ValueId = std::int32_t;
using StorageId = std::int32_t;
using OpId = std::int32_t;
inline constexpr std::int32_t no_id = -1;

/// Phases of a step (design, section 9). `recompute` runs inside backward.
enum class Phase : std::uint8_t { forward, loss, backward, recompute, optimizer };
inline constexpr std::size_t phase_count = 5;

/// Why a storage exists. The profile's categories are made from it and from its lifetime.
enum class Role : std::uint8_t {
  parameter,  ///< what is stored between steps (a shard under fsdp2)
  gathered,   ///< unsharded parameters, alive between all-gather and reshard
  buffer,     ///< rotary frequencies
  input,      ///< token ids and labels
  optimizer_state,
  waiting,          ///< what another worker of the process keeps while this one runs
  gradient,         ///< a parameter's gradient, kept until the next step
  activation,       ///< made by the forward
  recomputed,       ///< made by a recomputed forward
  activation_grad,  ///< a gradient on its way through backward
  temporary,        ///< inside one autograd node or optimizer call
  communication,    ///< all-gather and reduce-scatter buffers, buckets
};

/// A tensor. Values that only reshape or transpose another share its `base`, so they cost nothing;
/// a view that autograd treats with an op of its own (slice, expand) is that op's output on the
/// same storage.
struct Value {
  Shape shape;
  DType dtype = DType::bf16;
  bool requires_grad = false;
  /// Heads moved before tokens by transpose only: [B, heads, S, D] in memory as [B, S, heads, D].
  /// Pointwise ops keep the layout of their first operand; reshaping it back is then free.
  bool permuted = false;
  /// Where the sequences lie in memory: 0, outermost, or inside as many of the other dimensions, of
  /// what a gradient is a view of (ulysses.cpp).
  std::int8_t batch_at = 0;
  bool distributed = false;     ///< a DTensor: the engine adds its gradients out of place
  std::int8_t narrow_dim = -1;  ///< -1, or: a part of `base`, from narrow_start on along this dim
  std::int16_t version = 0;     ///< counts in-place writes to the storage before this value
  StorageId storage = no_id;
  ValueId base = no_id;   ///< no_id, or the value this one only views
  OpId producer = no_id;  ///< no_id: exists before the step
  std::int64_t narrow_start = 0;
};

struct Storage {
  std::int64_t bytes = 0;
  Role role = Role::activation;
  ModulePath module;
};

/// One dispatched op. Operands are `inputs` ids, then `outputs` ids, from `Program::operands`.
struct Op {
  OpKind kind{};
  Phase phase = Phase::forward;
  bool kept = false;  ///< its region holds the outputs until backward (selective checkpointing)
  std::uint16_t inputs = 0;
  std::uint16_t outputs = 0;
  ModulePath module;
  std::int32_t first_operand = 0;
  /// Autograd node. What a node did not make itself, it holds until its last op has run: saved
  /// tensors and incoming gradients die together (torch/csrc/autograd/engine.cpp, v2.11:
  /// release_variables after the call). A forward op is a group of its own.
  std::int32_t group = 0;
  std::int32_t region = no_id;  ///< checkpoint region, none outside
  OpId forward = no_id;         ///< backward and recompute: the forward op they belong to
  Attributes attributes;        ///< the struct that the op table names for the kind
};

[[noreturn]] void wrong_attributes(OpKind kind);
/// The op's attributes, which are an `A`: `attributes<Product>(op).inner`. Throws std::logic_error
/// where its kind has others.
template <typename A>
[[nodiscard]] const A& attributes(const Op& op) {
  const A* found = std::get_if<A>(&op.attributes);
  if (found == nullptr) wrong_attributes(op.kind);
  return *found;
}

/// A straight-line program: the forward at first, the whole step after the passes.
class Program {
 public:
  std::vector<Value> values;
  std::vector<Storage> storages;
  std::vector<Op> ops;
  std::vector<ValueId> operands;
  std::vector<CompiledGraph> compiled;      ///< backwards of `compiled_unit` ops
  std::vector<GeneratedBody> bodies;        ///< of `generated` ops
  std::vector<std::string> captured_names;  ///< of `captured` ops: "aten::convolution"

  /// A new value on a new storage.
  ValueId make(const Shape& shape, DType dtype, Role role, ModulePath module,
               bool requires_grad = false);
  /// The same memory with another shape; `permuted` as in Value.
  ValueId reshape(ValueId base, const Shape& shape, bool permuted = false);
  /// A part of `base`: `size` entries from `start` on along `dim`. Costs nothing.
  ValueId narrow(ValueId base, std::int32_t dim, std::int64_t start, std::int64_t size);
  /// A new value on `base`'s storage that an op writes or views; `bump` counts an in-place write.
  ValueId on_storage_of(ValueId base, const Shape& shape, DType dtype, bool bump);

  /// `graph`'s tensors of these numbers; `known` has one a tensor, no_id for a view until it is
  /// first read, which makes it.
  std::vector<ValueId> values_of(const CompiledGraph& graph, std::vector<ValueId>& known,
                                 std::span<const std::int32_t> numbers);
  /// Takes what `graph`'s generated launches compute into `bodies`.
  void own_bodies(CompiledGraph& graph);

  /// Appends an op; sets its outputs' producer. `attributes` left out are the kind's defaults.
  OpId emit(OpKind kind, Phase phase, ModulePath module, std::span<const ValueId> inputs,
            std::span<const ValueId> outputs, const Attributes& attributes = {});
  OpId emit(OpKind kind, Phase phase, ModulePath module, std::initializer_list<ValueId> inputs,
            std::initializer_list<ValueId> outputs, const Attributes& attributes = {}) {
    return emit(kind, phase, module, std::span(inputs.begin(), inputs.size()),
                std::span(outputs.begin(), outputs.size()), attributes);
  }

  [[nodiscard]] std::span<const ValueId> inputs(const Op& op) const {
    return {operands.data() + op.first_operand, op.inputs};
  }
  [[nodiscard]] std::span<const ValueId> outputs(const Op& op) const {
    return {operands.data() + op.first_operand + op.inputs, op.outputs};
  }
  [[nodiscard]] ValueId input(const Op& op, std::size_t i) const { return inputs(op)[i]; }
  [[nodiscard]] ValueId output(const Op& op, std::size_t i) const { return outputs(op)[i]; }
  [[nodiscard]] const Value& value(ValueId v) const { return values[static_cast<std::size_t>(v)]; }
  [[nodiscard]] Value& value(ValueId v) { return values[static_cast<std::size_t>(v)]; }
  [[nodiscard]] const Op& op(OpId o) const { return ops[static_cast<std::size_t>(o)]; }
  [[nodiscard]] Op& op(OpId o) { return ops[static_cast<std::size_t>(o)]; }
  [[nodiscard]] const Storage& storage(StorageId s) const {
    return storages[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] Storage& storage(StorageId s) { return storages[static_cast<std::size_t>(s)]; }
  /// The value that `v` only reshapes, or `v`.
  [[nodiscard]] ValueId root(ValueId v) const {
    while (value(v).base != no_id) v = value(v).base;
    return v;
  }
  [[nodiscard]] StorageId storage_of(ValueId v) const { return value(root(v)).storage; }
  [[nodiscard]] std::int64_t bytes(ValueId v) const {
    return checked_mul(value(v).shape.numel(), size_of(value(v).dtype));
  }
};

}  // namespace ac_advisor::ir
