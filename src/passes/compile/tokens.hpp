#pragma once

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// Sets each node's `tokens` where tokens lie along one of its dimensions: of [B · S, n] the first,
/// of [B, S, n] and [B, S, heads, D] the second, of [B, heads, S, D] the third. Of weights, of
/// their gradients and of sums over rows none.
void mark_tokens(JointGraph& graph);

}  // namespace ac_advisor::passes::compile
