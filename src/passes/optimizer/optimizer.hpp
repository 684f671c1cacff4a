#pragma once

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// State of `step.optimized`, resident from the first step's end, and the ops at the end of the
/// step. A fused one reads parameters, then gradients, then `step.optimizer_states`, each in the
/// order of `step.optimized`. AdamW's states are three a tensor, or two where its step counter is
/// on the host.
void append_optimizer(StepProgram& step, const OptimizerChoice& choice,
                      bool counters_on_host = false);

}  // namespace ac_advisor::passes
