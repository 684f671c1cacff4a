#pragma once

#include <functional>
#include <string>

#include "ac_advisor/profile/profile.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// Runs `steps` steps, all of them alike, and for "counters" one more whose device memory traffic
/// is counted by phase. Of the profile only time and what the instrument shows means something:
/// peaks are another run's. `before_step(step)`, `after_step(step, result)` as in observe().
[[nodiscard]] profile::Profile run_instrumented(
    Rank& rank, const std::string& instrument, std::int64_t steps,
    const std::function<bool(std::int64_t, const Rank::Result&)>& after_step,
    const std::function<void(std::int64_t)>& before_step);

}  // namespace ac_advisor::trainer
