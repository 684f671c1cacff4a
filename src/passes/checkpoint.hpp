#pragma once

#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Sets `region` of the forward ops [first, end) as `config.memory.ac` and `config.memory.scope`
/// ask. Region ids begin at `base`; returns the next one.
std::int32_t assign_regions(StepProgram& step, const StepConfig& config, ir::OpId first,
                            std::int32_t base);

/// Per forward op: TorchTitan's policy keeps its output (flash attention, collectives' results, and
/// matrix products 1, 3, 5, … of each region; `addmm` is not `mm`). Indexed by OpId.
std::vector<bool> selective_keep(const StepProgram& step, const StepConfig& config, ir::OpId first);

/// Rewrites the step from op `first` on: each region's ops run again before the first backward op
/// that needs them. `keep` as from `selective_keep`, or empty.
void recompute_regions(StepProgram& step, ir::OpId first, const std::vector<bool>& keep);

}  // namespace ac_advisor::passes
