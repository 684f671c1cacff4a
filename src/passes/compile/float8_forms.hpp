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

/// In how many parts the sums of `columns` outputs over so many rows are made; 1: in one
/// (choices.py: reduction_split_factor, of an H100's multiprocessors, where neighbours are added).
[[nodiscard]] std::int64_t inner_reduction_splits(std::int64_t elements, std::int64_t outputs);
/// The same where what is added lies apart; 1 also where num_splits asks for none.
[[nodiscard]] std::int64_t outer_reduction_splits(std::int64_t rows, std::int64_t columns);

}  // namespace ac_advisor::passes::compile
