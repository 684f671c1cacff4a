#pragma once

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Whether `build_step` verifies the program after every pass, and its schedule: in debug builds,
/// and in tests, which set it.
[[nodiscard]] bool& verifies_passes();

/// What holds after every pass: operands and storages that are there, views within what they view,
/// attributes of the op's kind, values made before they are read, the optimizer's ops at the end.
/// Throws std::logic_error naming the op.
void verify(const StepProgram& step);

/// What holds of the finished step: a storage has one life, nothing reads it before or after, and
/// bytes that are allocated are freed or outlive the step. Throws std::logic_error.
void verify(const StepProgram& step, const Schedule& schedule);

}  // namespace ac_advisor::passes
