#pragma once

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/simulate/memory.hpp"

namespace ac_advisor::simulate {

/// Whether `torch.compile(model, mode="reduce-overhead")` runs an op in one of its CUDA graphs: of
/// a model as one graph all but what autograd makes for its backward.
[[nodiscard]] bool is_recorded(const ir::Program& program, const ir::Op& op);

/// What those graphs hold (torch/_inductor/cudagraph_trees.py, v2.11).
[[nodiscard]] GraphPool graph_pool(const ir::Program& program);

}  // namespace ac_advisor::simulate
