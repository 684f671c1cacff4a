#pragma once

#include <string>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// The step as text, an op a line, for people, diffs and tests; docs/program.md says what it means.
/// A value is named after the module and op that make it, so a change moves no other line.
[[nodiscard]] std::string program_text(const StepProgram& step);

}  // namespace ac_advisor::passes
