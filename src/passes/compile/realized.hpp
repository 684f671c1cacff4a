#pragma once

#include <span>
#include <vector>

#include "expressions.hpp"
#include "fusion.hpp"
#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// Which nodes of a graph are buffers (torch/_inductor, v2.11). Pointwise nodes are written into
/// their readers (lowering.py, ir.py: Pointwise.inner_fn) unless a result, a reduction or a
/// library's kernel needs them in memory, or they would read or compute too much (ir.py: realize;
/// expressions.hpp).
class Realized {
 public:
  /// `given` are in memory before the graph runs, `results` (-1: none) when it is done.
  Realized(const JointGraph& graph, std::span<const NodeId> given, std::span<const NodeId> results);

  [[nodiscard]] bool needed(NodeId n) const { return needed_[at(n)]; }
  [[nodiscard]] bool is_given(NodeId n) const { return given_[at(n)]; }
  [[nodiscard]] bool realized(NodeId n) const { return realized_[at(n)]; }
  /// Realized where it is lowered, before a reader can ask for an order of strides.
  [[nodiscard]] bool at_once(NodeId n) const { return at_once_[at(n)]; }
  [[nodiscard]] bool is_result(NodeId n) const { return is_result_[at(n)]; }

  [[nodiscard]] bool is_view(NodeId n) const;
  /// lowering.py: sort_stable; ir.py: Sort.create. Few numbers are sorted by a generated kernel.
  [[nodiscard]] bool is_generated_sort(NodeId n) const;
  [[nodiscard]] bool is_library(NodeId n) const;
  /// One of var_mean's two results, or of a generated sort's: each a reduction of its own in one
  /// kernel.
  [[nodiscard]] bool is_moment(NodeId n) const;
  /// One of the results of a library's call.
  [[nodiscard]] bool is_output(NodeId n) const;
  /// The buffer that a node is, or is a view of.
  [[nodiscard]] NodeId buffer(NodeId n) const;
  /// Whether an amax goes along what is a column in memory.
  [[nodiscard]] bool is_of_columns(NodeId n) const;
  [[nodiscard]] Sort sort_of(NodeId n) const;

 private:
  static std::size_t at(NodeId n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] const Node& node(NodeId n) const { return g_.node(n); }
  [[nodiscard]] bool is_asked_of_float8(NodeId n) const;
  void find_needed(std::span<const NodeId> results);
  void realize(std::span<const NodeId> results);
  void realize_before_broadcast(NodeId n, Expressions& expressions);
  void realize_large();

  const JointGraph& g_;
  std::vector<bool> given_, realized_, at_once_, needed_;
  std::vector<bool> is_result_;  ///< or what one is a view of
};

}  // namespace ac_advisor::passes::compile
