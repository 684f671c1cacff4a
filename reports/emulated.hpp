#pragma once

#include "ac_advisor/reports/reports.hpp"

/// Renderers of a profile that has `emulation`: a program's, without a model or a configuration.
namespace ac_advisor::reports {

/// "emulated: python train.py", "on h100-80gb, rank 0 of 8", two lines.
[[nodiscard]] std::string emulated_title(const profile::Profile& profile);
[[nodiscard]] std::string emulated_table(const profile::Profile& profile, const Style& style);
[[nodiscard]] std::string emulated_markdown(const profile::Profile& profile);
/// A row a step, bytes and counts exact.
[[nodiscard]] std::string emulated_csv(const profile::Profile& profile);

}  // namespace ac_advisor::reports
