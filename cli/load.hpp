#pragma once

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "cli/arguments.hpp"

namespace ac_advisor::cli {

/// --capture and --python; what is told goes to stderr.
[[nodiscard]] capture::Settings capture_settings(const Arguments& arguments);

/// MODEL, read with --as, or captured.
[[nodiscard]] model::ModelSpec load_model(const Arguments& arguments);

/// The step's options for a model; tells what its framework's preset had to give up for it.
[[nodiscard]] advise::Resolved resolve(const model::ModelSpec& model, const OptionList& options);

/// To stderr: what the preset had to give up.
void tell_notes(const advise::Resolved& resolved);

/// To stderr: the warnings of a model under a configuration, and what --as ignores, for commands
/// whose output does not have them.
void tell_warnings(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::cli
