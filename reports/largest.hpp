#pragma once

#include "ac_advisor/reports/largest.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {

/// A row a setting or a model, at most `rows`.
[[nodiscard]] Grid largest_grid(const advise::Largest& largest, std::size_t rows);
/// What the marks of its cells mean, where it has some.
[[nodiscard]] std::string marks(const advise::Largest& largest);

}  // namespace ac_advisor::reports
