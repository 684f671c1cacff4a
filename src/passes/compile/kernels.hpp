#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ac_advisor/ir/compiled.hpp"
#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// Whose kernels a graph's launches are.
enum class Runner : std::uint8_t { inductor, trainer };

/// The launches that compute `results` from `given`, as Inductor fuses them (v2.11). `given` are
/// the graph's tensors 0, 1, …; of them `donated` may be written over once nothing reads them. The
/// trainer's interpreter goes over blocks of tokens: tensors lie as they were traced, and what
/// reads heads and tokens the other way round is no part of a kernel.
[[nodiscard]] ir::CompiledGraph write_kernels(const JointGraph& graph,
                                              std::span<const NodeId> given,
                                              const std::vector<bool>& donated,
                                              std::span<const NodeId> results, Runner runner);

}  // namespace ac_advisor::passes::compile
