#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "cli/arguments.hpp"

namespace ac_advisor::cli {

/// MODEL, read with --as.
[[nodiscard]] model::ModelSpec load_model(const Arguments& arguments);

/// To stderr: the warnings of a model under a configuration, and what --as ignores, for commands
/// whose output does not have them.
void tell_warnings(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::cli
