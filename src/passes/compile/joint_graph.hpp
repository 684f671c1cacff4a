#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/ir/program.hpp"
#include "node_list.hpp"

namespace ac_advisor::passes::compile {

using ir::Target;

/// What the partitioner asks of a target: get_default_op_list, torch/_functorch/partitioners.py.
struct TargetRow {
  Target target;
  const char* name;        ///< as torch prints it
  bool view;               ///< costs nothing, and is never banned from recomputation
  bool recomputable;       ///< in the allowlist; what is, is fusible
  bool compute_intensive;  ///< banned however small the memory budget, until the knapsack
};
[[nodiscard]] const TargetRow& row(Target target);
/// scaled_dot_product_attention's kernels and their backwards.
[[nodiscard]] bool is_attention(Target target);
[[nodiscard]] bool is_attention_backward(Target target);
/// Of the ranks that share a layer, or the wait for one.
[[nodiscard]] bool is_collective(Target target);
/// bitsandbytes' of weights in 4 bits.
[[nodiscard]] bool is_of_four_bits(Target target);
/// Of complex numbers, for which Inductor generates no code.
[[nodiscard]] bool is_complex(Target target);
/// Of those, what is its operand's memory (torch/_inductor/ir.py:
/// FallbackKernel.get_inputs_that_alias_output).
[[nodiscard]] bool is_alias(Target target);
/// Its first operand is a buffer that is there, which it writes at places.
[[nodiscard]] bool adds_into(Target target);

/// The dimensions of a permute, its `Node::index`: of a matrix, of heads and tokens, of rows and
/// columns of each head's matrix, the same with batch and heads in one.
namespace permuted {
inline constexpr std::int64_t matrix = 10, heads = 213, rows = 132, batched_rows = 21;
}  // namespace permuted

struct Node {
  Target target{};
  NodeList inputs;
  ir::Shape shape;
  DType dtype = DType::bf16;
  /// getitem: which output; slice, slice_scatter: where it starts; `permuted`.
  /// With `number` a part of what makes two nodes the same.
  std::int64_t index = 0;
  double number = 0;
  bool swapped = false;           ///< in memory its dimensions 1 and 2 are the other way round
  std::int8_t tokens = -1;        ///< the dimension along which tokens lie; -1: none
  bool parameter = false;         ///< a placeholder that lives as long as the model
  bool has_tensor = true;         ///< false: several outputs, which its getitems name
  bool kept = false;              ///< --ac selective: CheckpointPolicy.MUST_SAVE
  bool recomputed = false;        ///< --ac: CheckpointPolicy.PREFER_RECOMPUTE
  bool of_two = false;            ///< a cast that fx_graph_cse makes of two
  std::int32_t region = -1;       ///< the checkpoint that it is in; -1: none
  ir::ValueId value = ir::no_id;  ///< a placeholder's in the program
  ir::ModulePath module;
  NodeList users;

  [[nodiscard]] std::int64_t bytes() const;
};

/// Forward and backward of one compiled unit: nodes in the order in which they were traced.
struct JointGraph {
  std::vector<Node> nodes;
  std::vector<NodeId> forward_outputs;
  std::vector<NodeId> backward_outputs;  ///< a gradient a placeholder; -1: it has none
  bool returns_loss = false;             ///< first of all; nothing reads the other outputs

  [[nodiscard]] const Node& node(NodeId n) const { return nodes[static_cast<std::size_t>(n)]; }
  [[nodiscard]] Node& node(NodeId n) { return nodes[static_cast<std::size_t>(n)]; }
  [[nodiscard]] NodeId size() const { return static_cast<NodeId>(nodes.size()); }
  /// Of a node's output, or of all of them (partitioners.py: _size_of).
  [[nodiscard]] std::int64_t bytes_of(NodeId n) const;
  [[nodiscard]] std::vector<NodeId> all(Target target) const;
};

/// "aten.mm.default", or of one of several outputs "aten._scaled_dot_product_…default[0]".
[[nodiscard]] std::string name_of(const JointGraph& graph, NodeId node);
/// Without what no output needs; fills `users`. Placeholders stay.
[[nodiscard]] JointGraph without_dead_code(JointGraph graph);
/// Of two casts, one of which reads the other alone, the last (fx_passes/joint_graph.py:
/// pointless_convert): it stays even where it casts to the dtype that it reads.
[[nodiscard]] JointGraph without_pointless_converts(JointGraph graph);

}  // namespace ac_advisor::passes::compile
