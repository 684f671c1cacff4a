#pragma once

#include <optional>
#include <span>
#include <vector>

#include "own_graph.hpp"
#include "realized.hpp"

namespace ac_advisor::passes::compile {

/// A product reads rows of all heads. What lies heads first is copied for it
/// (torch/_inductor/ir.py, v2.11: realize_input, which then makes no ReinterpretView), once for all
/// that read it so. None where nothing is copied. `realized` and `swapped` are the graph's.
[[nodiscard]] std::optional<OwnGraph> with_copies_for_products(const JointGraph& graph,
                                                               std::span<const NodeId> given,
                                                               std::span<const NodeId> results,
                                                               const Realized& realized,
                                                               const std::vector<bool>& swapped);

}  // namespace ac_advisor::passes::compile
