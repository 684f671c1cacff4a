#pragma once

#include <optional>
#include <span>

#include "own_graph.hpp"
#include "realized.hpp"

namespace ac_advisor::passes::compile {

/// A graph with products in fp8 as Inductor lowers it (v2.11): what such a product reads is copied
/// for each call where it is not in memory already (lowering.py: constrain_to_fx_strides; ir.py:
/// copy_input), and the largest of all elements is found in steps, each a reduction of its own
/// (ir.py: Reduction.num_splits, create_multilayer). Nothing where it has none.
[[nodiscard]] std::optional<OwnGraph> with_float8_forms(const JointGraph& graph,
                                                        std::span<const NodeId> given,
                                                        std::span<const NodeId> results,
                                                        const Realized& realized);

}  // namespace ac_advisor::passes::compile
