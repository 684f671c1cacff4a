#pragma once

#include <span>
#include <vector>

#include "ac_advisor/ir/compiled.hpp"
#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// The launches that compute `results` from `given`, as Inductor fuses them (v2.11). `given` are
/// the graph's tensors 0, 1, …; of them `donated` may be written over once nothing reads them.
[[nodiscard]] ir::CompiledGraph write_kernels(const JointGraph& graph,
                                              std::span<const NodeId> given,
                                              const std::vector<bool>& donated,
                                              std::span<const NodeId> results);

}  // namespace ac_advisor::passes::compile
