#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "node_set.hpp"

namespace ac_advisor::passes::compile {

enum class Sort : std::uint8_t { library, pointwise, row_sum, column_sum };

/// A node of Inductor's scheduler: what one buffer, or one library's call, is made by.
struct SchedulerNode {
  Sort sort = Sort::pointwise;
  std::int64_t space = 0;      ///< elements that it walks over
  std::int64_t rows = 0;       ///< of a reduction: what it makes
  std::vector<NodeId> writes;  ///< buffers
  NodeSet reads;               ///< buffers
  NodeSet elsewhere;           ///< of those, not read at the places that it writes
  NodeSet indirect;            ///< of those, read where data says, or written so
  /// Of those, how often the places that it walks over go over the buffer, where it is not once: a
  /// part of a row that a whole row is walked over for.
  std::map<NodeId, double> walks;
  bool maxima = false;  ///< a reduction that is no sum
  bool in_one = false;  ///< a column's sum that is not split
  bool copies = false;  ///< what a library's call wants in memory: loops as nobody's else
};

struct BufferUse {
  std::int64_t bytes = 0, elements = 0;
  std::int32_t readers = 0;  ///< scheduler nodes
  bool made = false;         ///< by the graph, not given to it
};

/// Which nodes become one kernel: groups of them, in the order of each group's first
/// (torch/_inductor/scheduler.py, v2.11: fuse_nodes). `buffers` by node.
[[nodiscard]] std::vector<std::vector<std::int32_t>> fuse_nodes(
    const std::vector<SchedulerNode>& nodes, const std::vector<BufferUse>& buffers);

}  // namespace ac_advisor::passes::compile
