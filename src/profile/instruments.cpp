#include <algorithm>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::profile {

std::optional<double> Instruments::overhead_percent(const Run& run) const {
  const auto plain =
      std::find_if(runs.begin(), runs.end(), [](const Run& r) { return r.instrument == "timing"; });
  if (plain == runs.end() || plain->step_seconds <= 0 || run.instrument == "timing")
    return std::nullopt;
  return 100.0 * (run.step_seconds / plain->step_seconds - 1.0);
}

}  // namespace ac_advisor::profile
