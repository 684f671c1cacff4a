#pragma once

#include <string>

#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {

inline constexpr const char* largest_schema = "ac-advisor/largest/1";

/// A row a setting or a model, at most `rows`.
[[nodiscard]] Grid largest_grid(const advise::Largest& largest, std::size_t rows);
/// What the marks of its cells mean, where it has some.
[[nodiscard]] std::string marks(const advise::Largest& largest);

[[nodiscard]] std::string table(const advise::Largest& largest, const Style& style);
[[nodiscard]] std::string markdown(const advise::Largest& largest);
[[nodiscard]] std::string csv(const advise::Largest& largest);
[[nodiscard]] std::string json(const advise::Largest& largest);

}  // namespace ac_advisor::reports
