#pragma once

#include <string>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::cli {

/// What decides an answer and was not given: "assumed: --gpu h100-80gb, --batch 1", each with the
/// option that changes it; empty where all was given. `given`: options by hand or of a file.
[[nodiscard]] std::string assumed(const OptionList& given, const StepConfig& config);

}  // namespace ac_advisor::cli
