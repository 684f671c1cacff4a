#pragma once

#include <string>

#include "ac_advisor/profile/run_spec.hpp"

namespace ac_advisor::trainer {

/// What ac-trainer does with a run specification that says "calibrate": the measurements as JSON.
/// Throws UserError, Failure.
[[nodiscard]] std::string run_calibration(const profile::RunSpec& spec);

}  // namespace ac_advisor::trainer
