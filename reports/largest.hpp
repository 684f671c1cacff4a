#pragma once

#include <string>

#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

inline constexpr const char* largest_schema = "ac-advisor/largest/1";

[[nodiscard]] std::string table(const advise::Largest& largest, const Style& style);
[[nodiscard]] std::string markdown(const advise::Largest& largest);
[[nodiscard]] std::string csv(const advise::Largest& largest);
[[nodiscard]] std::string json(const advise::Largest& largest);

}  // namespace ac_advisor::reports
