#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// What is live while one op runs, its scratch included; bytes by category.
struct CategoryPoint {
  std::int32_t op = 0;
  std::uint8_t phase = 0;  ///< index into profile::phase_names
  std::array<std::int64_t, profile::category_count> bytes{};
  [[nodiscard]] std::int64_t total() const;
};

/// The memory of the step by category: in each of `stretches` stretches of the schedule its lowest
/// and its highest point, so that the highest of all is the profile's peak. Throws UserError.
[[nodiscard]] std::vector<CategoryPoint> category_timeline(const model::ModelSpec& model,
                                                           const StepConfig& config,
                                                           std::size_t stretches = 100);

}  // namespace ac_advisor::advise
