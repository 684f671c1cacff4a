#pragma once

#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Resident from the first step's end; three a tensor: its step counter (a scalar), exp_avg and
/// exp_avg_sq. Empty for SGD without momentum.
[[nodiscard]] std::vector<ir::ValueId> add_optimizer_state(
    StepProgram& step, Optimizer optimizer, const std::vector<OptimizedTensor>& tensors);
/// The optimizer's ops at the end of the step. A fused one reads parameters, then gradients, then
/// `states`, each in the order of `tensors`.
void append_optimizer(StepProgram& step, Optimizer optimizer,
                      const std::vector<OptimizedTensor>& tensors,
                      const std::vector<ir::ValueId>& states);

}  // namespace ac_advisor::passes
