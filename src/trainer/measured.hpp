#pragma once

#include <map>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// What one rank's steps showed.
struct Observed {
  std::vector<double> losses;
  std::vector<StepTiming> timings;  ///< of steps whose peaks were not asked for op by op
  std::int64_t first_step_peak = 0;
  profile::Memory memory;
};

/// Runs `steps` steps: a CPU's peaks are those of the last; a GPU's those of the second, whose
/// allocator is asked after each op, so that it is not timed.
/// `after_step(step, result)` is called after each; false ends the run. `trained` is called after
/// the last, before the steps that are run to look closer.
[[nodiscard]] Observed observe(
    Rank& rank, std::int64_t steps,
    const std::function<bool(std::int64_t, const Rank::Result&)>& after_step,
    const std::function<void(std::int64_t)>& before_step, const std::function<void()>& trained);

/// The profile of rank 0, with null and a reason for what the device does not show.
[[nodiscard]] profile::Profile measured_profile(const Built& built, const Observed& observed,
                                                const Backend& backend);

/// Of a run on the emulated device: leaves out what follows from computing.
void describe_emulated(profile::Profile& result);

/// Live bytes now, by category and by top-level module.
struct Live {
  std::map<std::string, std::int64_t> by_category, by_module;
  std::int64_t bytes = 0;
};
[[nodiscard]] Live live_now(Rank& rank);

}  // namespace ac_advisor::trainer
