#pragma once

#include <string>

#include "ac_advisor/oom/explain.hpp"
#include "ac_advisor/reports/reports.hpp"

/// Renderers of what out-of-memory errors say.
namespace ac_advisor::reports {

[[nodiscard]] std::string table(const oom::Explanation& explanation, const Style& style);
/// `ac-advisor/oom/1`.
[[nodiscard]] std::string json(const oom::Explanation& explanation);

}  // namespace ac_advisor::reports
