#pragma once

#include "ac_advisor/profile/run_spec.hpp"

namespace ac_advisor::trainer {

/// Runs the specification in this process, or with `collectives` "procs" and no launcher around, in
/// one child a rank; when one dies the others are ended, and it is named with its step. Writes the
/// profiles to `spec.output`. Returns the exit code.
[[nodiscard]] int launch(const profile::RunSpec& spec);

}  // namespace ac_advisor::trainer
