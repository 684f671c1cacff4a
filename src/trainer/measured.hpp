#pragma once

#include <map>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// What one rank's steps showed: peaks of the last one, the fastest one's times.
struct Observed {
  std::vector<double> losses;
  std::vector<StepTiming> timings;
  std::int64_t first_step_peak = 0;
  profile::Memory memory;  ///< but for what needs a caching allocator
};

/// Runs `steps` steps with everything measured: the first by its peak alone, the last op by op.
/// `after_step(step, result)` is called after each; false ends the run. `trained` is called after
/// the last, before the steps that are run to look closer.
[[nodiscard]] Observed observe(
    Rank& rank, std::int64_t steps,
    const std::function<bool(std::int64_t, const Rank::Result&)>& after_step,
    const std::function<void(std::int64_t)>& before_step, const std::function<void()>& trained);

/// The profile of rank 0, with null and a reason for what a CPU does not show.
[[nodiscard]] profile::Profile measured_profile(const Built& built, const Observed& observed);

/// Live bytes now, by category and by top-level module.
struct Live {
  std::map<std::string, std::int64_t> by_category, by_module;
  std::int64_t bytes = 0;
};
[[nodiscard]] Live live_now(Rank& rank);

}  // namespace ac_advisor::trainer
