#pragma once

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// GradScaler.scale: backward begins at the loss times the scale.
void scale_loss(StepProgram& step);

}  // namespace ac_advisor::passes
