#pragma once

#include <functional>

#include "ac_advisor/graph/graph.hpp"
#include "json/node.hpp"

namespace ac_advisor::graph {

/// An op whose references are in range.
using ReadOp = std::function<Op(const json::Node&)>;
/// The section of docs/schema/graph-2.json by its fields' names. `fault_of_scale` has not seen it.
[[nodiscard]] Scale read_scale(const json::Node& node, const ReadOp& read_op);

}  // namespace ac_advisor::graph
