#pragma once

#include <vector>

#include "ac_advisor/ir/compiled.hpp"
#include "kernels.hpp"
#include "trace_block.hpp"

namespace ac_advisor::passes::compile {

/// A compiled block: for all blocks that are alike.
struct Unit {
  ir::CompiledGraph forward;   ///< given: the placeholders; results: the output, what is saved
  ir::CompiledGraph backward;  ///< given: the placeholders, what is saved, the output's gradient
};

/// Partitions the joint graph and writes both graphs' launches. `budget` as saved_values has it.
/// `recorded`: in CUDA graphs, whose backward copies the gradients that it is given.
[[nodiscard]] Unit compile_unit(JointGraph joint, double budget, bool recorded, Runner runner);

}  // namespace ac_advisor::passes::compile
