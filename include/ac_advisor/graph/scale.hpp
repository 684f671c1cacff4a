#pragma once

#include <cstdint>
#include <string>

#include "ac_advisor/graph/graph.hpp"

/// A graph at other batches and sequences than that of its capture (docs/graphs.md).
namespace ac_advisor::graph {

/// Whether the graph is of this size, or its capture says what it is at this one.
[[nodiscard]] bool has_size(const Graph& graph, Size size);
/// Why it is not, where the capture was asked for it: a clause; empty: it was not asked.
[[nodiscard]] std::string why_not(const Graph& graph, Size size);
/// What is beyond the sizes that were captured; empty: nothing is.
[[nodiscard]] std::string beyond_capture(const Graph& graph, Size size);

/// The graph at a size that it has, without its `scale`. Ops that are others at some sizes are
/// those of the captured size that is nearest. Throws UserError where a number would be one that no
/// capture could have.
[[nodiscard]] Graph at_size(const Graph& graph, Size size);

}  // namespace ac_advisor::graph
