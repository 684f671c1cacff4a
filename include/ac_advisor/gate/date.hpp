#pragma once

#include <chrono>
#include <string>

namespace ac_advisor::gate {

using Date = std::chrono::year_month_day;

/// "2026-01-31"; `where` names the field or option in the UserError for anything else.
[[nodiscard]] Date parse_date(const std::string& text, const std::string& where);
[[nodiscard]] std::string to_string(Date date);
/// Of the environment's SOURCE_DATE_EPOCH (reproducible runs), else of the clock; UTC.
[[nodiscard]] Date today();

}  // namespace ac_advisor::gate
