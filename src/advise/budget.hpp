#pragma once

#include <optional>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {

struct Solved {
  passes::StepProgram step;
  std::optional<profile::BudgetResult> budget;
  StepConfig settled;  ///< what it was built of: the configuration, with what budget: chose
};

/// The step's program; for --ac budget:SIZE the fastest one whose allocated peak is at most SIZE.
/// Throws UserError with the least feasible size when none is.
[[nodiscard]] Solved solve(const model::ModelSpec& model, const StepConfig& config,
                           const simulate::Device& device);

}  // namespace ac_advisor::advise
