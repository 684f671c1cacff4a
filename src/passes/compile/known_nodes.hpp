#pragma once

#include <vector>

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// Finds the node that is there already (fx_graph_cse): of the same target, operands, shape, dtype,
/// index and number.
class KnownNodes {
 public:
  /// Where its id is, or -1 for the one that is to be written there: the graph's next.
  [[nodiscard]] NodeId& find(const JointGraph& graph, Target target, const NodeList& inputs,
                             const ir::Shape& shape, DType dtype, std::int64_t index,
                             double number);

 private:
  void grow(const JointGraph& graph);

  std::vector<NodeId> table_;  ///< by hash, then the next that is free; -1: nothing
  std::size_t count_ = 0;
};

}  // namespace ac_advisor::passes::compile
