#pragma once

#include <vector>

#include "ac_advisor/graph/graph.hpp"

namespace ac_advisor::graph {

/// A micro-batch with `runs` in place of what they stand for; they are in order and in range. Where
/// something refers to an op that is replaced, the last that stands for it is meant, or the one
/// before.
[[nodiscard]] MicroBatch spliced(const MicroBatch& micro, const std::vector<Run>& runs);

}  // namespace ac_advisor::graph
