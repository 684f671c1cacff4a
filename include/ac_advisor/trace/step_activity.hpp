#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

/// What the device did for one phase of one step: means over the steady steps.
struct PhaseActivity {
  double launches = 0;  ///< calls of the host; a captured graph is one
  double kernels = 0;   ///< that the device ran
  double kernel_seconds = 0;
  double copies = 0, copy_bytes = 0;
  double memsets = 0, memset_bytes = 0;
  double busy_seconds = 0;
  double idle_seconds = 0;                     ///< nothing runs, before work of this phase
  double long_gaps = 0, long_gap_seconds = 0;  ///< idling over 50 µs at a time
};

/// A step of this project's trainer, as a trace of it tells.
struct StepActivity {
  std::int64_t steps = 0;  ///< that the means are over: all but the first
  std::string device;
  double step_seconds = 0;  ///< on the device's clock: busy and idle
  std::array<PhaseActivity, profile::phase_names.size()> by_phase;
  PhaseActivity outside;     ///< in a step, in none of its phases: loading data, the loss's mean
  bool whole_graph = false;  ///< the step is one captured graph: all of it is outside of phases
};

/// From a trace of ac-trainer, whose ranges are "ac-trainer", in it "step N", a phase, and a module
/// path. Of the process with most kernel time. Throws UserError where the trace has no kernels, no
/// second step, or no phases.
[[nodiscard]] StepActivity step_activity(const TraceFile& file);

/// Puts into a measured profile what only a trace knows: kernels.launches, time.launch_bound, and
/// the gaps and idling of `instruments`; they are absent no more.
void add_activity(profile::Profile& profile, const StepActivity& activity);
/// The same fields of `instruments`, absent because of `why_not`.
void add_no_activity(profile::Profile& profile, const std::string& why_not);

}  // namespace ac_advisor::trace
