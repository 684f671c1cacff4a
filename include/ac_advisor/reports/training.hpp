#pragma once

#include <string>

#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

/// What each key of a training file became: key, value, line, option; then what has no effect, and
/// what is no key.
[[nodiscard]] std::string table(const intake::Training& training, const Style& style);

}  // namespace ac_advisor::reports
