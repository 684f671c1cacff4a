#pragma once

#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::cli {

/// What decides an answer and was not given: "assumed: --gpu h100-80gb, --batch 1", each with the
/// option that changes it; empty where all was given. `given`: options by hand or of a file.
[[nodiscard]] std::string assumed(const OptionList& given, const StepConfig& config);
/// The same in lines of the terminal's width.
[[nodiscard]] std::string assumed_lines(const OptionList& given, const StepConfig& config,
                                        const reports::Style& style);

}  // namespace ac_advisor::cli
