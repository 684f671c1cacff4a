#pragma once

#include "ac_advisor/passes/step_program.hpp"
#include "passes/backward.hpp"

namespace ac_advisor::passes {

/// The backward of the micro-batch of a stage that was written from `first` on, in two parts where
/// the schedule has it so: for the stage's input, then for its weights (StepProgram::weight_begin).
void split_backward(StepProgram& step, Backward& backward, ir::OpId first);

}  // namespace ac_advisor::passes
