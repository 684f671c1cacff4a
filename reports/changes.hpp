#pragma once

#include <string>
#include <vector>

#include "ac_advisor/advise/changes.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

/// What makes the step fit, the cheapest first, each as it was planned; or that nothing of it does.
/// `fits`: the step as it is does so by its plan; then they are what holds less.
[[nodiscard]] std::string changes_text(const std::vector<advise::Change>& changes, bool fits,
                                       const Style& style);

}  // namespace ac_advisor::reports
