#pragma once

#include <vector>

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// What the forward keeps for the backward: the nodes that
/// min_cut_rematerialization_partition (torch/_functorch/partitioners.py, v2.11) saves, in the
/// graph's order, placeholders among them. `budget` is torch._functorch.config's
/// activation_memory_budget, 0 to 1; the graph has no dead code.
[[nodiscard]] std::vector<NodeId> saved_values(const JointGraph& graph, double budget);

/// choose_saved_values_set's 0/1 knapsack, dp_knapsack (torch/_functorch/
/// _activation_checkpointing/knapsack.py, v2.11): which of the items are not worth their memory.
/// `memory` are shares of the largest saved size, `runtime` FLOPs.
[[nodiscard]] std::vector<std::size_t> not_worth_saving(const std::vector<double>& memory,
                                                        const std::vector<double>& runtime,
                                                        double most_memory);

}  // namespace ac_advisor::passes::compile
