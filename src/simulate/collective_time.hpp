#pragma once

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/simulate/clock.hpp"

namespace ac_advisor::simulate {

/// Among the ranks that share a layer, which are neighbours.
[[nodiscard]] bool is_tensor_parallel(ir::OpKind kind);
/// A collective between the ranks that share a layer's experts.
[[nodiscard]] bool is_expert_parallel(ir::OpKind kind);
/// Among the ranks that share a sequence.
[[nodiscard]] bool is_context_parallel(ir::OpKind kind);
/// A functional collective: the next op that reads what it makes waits for it.
[[nodiscard]] bool makes_new_tensors(ir::OpKind kind);
/// Seconds of a collective. Ring algorithms: all-gather and reduce-scatter move (W - 1) / W of the
/// whole buffer through each rank's link, all-reduce twice that (NVIDIA nccl-tests,
/// doc/PERFORMANCE.md). Between nodes, a node's rings share the networks of its GPUs.
[[nodiscard]] double collective_seconds(const ir::Program& program, const ir::Op& op,
                                        const Device& device, const Run& run);
/// Of a message between two pipeline stages, in one node or across the network.
[[nodiscard]] double send_seconds(double bytes, bool leaves_node, const Device& d, const Run& run);

}  // namespace ac_advisor::simulate
