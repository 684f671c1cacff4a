#pragma once

#include <string>

#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/reports/reports.hpp"

/// Renderers of what `advise --solve` found.
namespace ac_advisor::reports {

/// Version of its JSON.
inline constexpr const char* largest_schema = "ac-advisor/largest/1";

[[nodiscard]] std::string table(const advise::Largest& largest, const Style& style);
[[nodiscard]] std::string markdown(const advise::Largest& largest);
/// A row a setting or a model.
[[nodiscard]] std::string csv(const advise::Largest& largest);
[[nodiscard]] std::string json(const advise::Largest& largest);
/// Reads what `json` wrote; `base` is the configuration of its first row. Throws UserError naming
/// `origin` and the field.
[[nodiscard]] advise::Largest largest_from_json(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::reports
