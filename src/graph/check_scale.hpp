#pragma once

#include <string>

#include "ac_advisor/graph/graph.hpp"

namespace ac_advisor::graph {

/// What cannot be so in `scale`, and where: "scale.forms[3]". Empty: nothing is.
struct ScaleFault {
  std::string where, what;
  explicit operator bool() const { return !where.empty(); }
};
/// Of a graph that is in order but for its `scale`: that each reference is in range, and that each
/// of its programs can run in its order.
[[nodiscard]] ScaleFault fault_of_scale(const Graph& graph);

}  // namespace ac_advisor::graph
