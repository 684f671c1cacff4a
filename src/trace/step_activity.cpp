#include "ac_advisor/trace/step_activity.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::trace {
namespace {

constexpr const char* fields[] = {"instruments.gaps_over_50_us", "instruments.gap_seconds",
                                  "instruments.idle_seconds"};

/// Index into profile::phase_names.
std::optional<std::size_t> phase_named(std::string_view name) {
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i)
    if (name == profile::phase_names[i]) return i;
  return std::nullopt;
}

/// "ac-trainer/step/recompute/blocks.3.mlp": what follows the step. Where the tree of ranges was
/// full, the phase is all that is known.
std::optional<std::size_t> phase_of(const RangeTotal& range) {
  if (range.path == "[others]")
    return phase_named(phase_names[static_cast<std::size_t>(range.phase)]);
  static constexpr std::string_view step = "step/";
  const auto at = range.path.find(step);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(range.path).substr(at + step.size());
  return phase_named(rest.substr(0, rest.find('/')));
}

void add(PhaseActivity& total, const Work& work, double steps) {
  const auto a_step = [&](std::int64_t n) { return static_cast<double>(n) / steps; };
  total.launches += a_step(work.launches);
  total.kernels += a_step(work.kernels);
  total.kernel_seconds += 1e-9 * a_step(work.kernel_ns);
  total.copies += a_step(work.copies);
  total.copy_bytes += a_step(work.copy_bytes);
  total.memsets += a_step(work.memsets);
  total.memset_bytes += a_step(work.memset_bytes);
  total.busy_seconds += 1e-9 * a_step(work.busy_ns);
  total.idle_seconds += 1e-9 * a_step(work.idle_ns);
  total.long_gaps += a_step(work.long_gaps);
  total.long_gap_seconds += 1e-9 * a_step(work.long_gap_ns);
}

}  // namespace

StepActivity step_activity(const TraceFile& file) {
  const Trace& trace = busiest(file);
  const std::string origin = file.origin.empty() ? "the trace" : file.origin;
  if (trace.steps.later == 0)
    throw UserError(origin + " has " + std::to_string(trace.steps.first) +
                    " steps; a steady one is the second or later: run ac-trainer with two or more");
  StepActivity activity;
  activity.steps = trace.steps.later;
  if (!trace.devices.empty()) activity.device = trace.devices.front().name;
  bool phases = false;
  for (const RangeTotal& range : trace.ranges) {
    if (range.window != Window::later_steps) continue;
    const auto phase = phase_of(range);
    phases = phases || phase.has_value();
    activity.whole_graph =
        activity.whole_graph || range.path.find("step/graph") != std::string::npos;
    add(phase ? activity.by_phase[*phase] : activity.outside, range.work,
        static_cast<double>(activity.steps));
    activity.step_seconds += 1e-9 * static_cast<double>(range.work.busy_ns + range.work.idle_ns) /
                             static_cast<double>(activity.steps);
  }
  if (!phases && !activity.whole_graph)
    throw UserError(
        origin +
        " has no ranges forward, backward, … in its steps: it is not one of ac-trainer, "
        "or of one that was built without NVTX's headers");
  return activity;
}

void add_activity(profile::Profile& profile, const StepActivity& activity) {
  if (!profile.instruments) profile.instruments.emplace();
  profile::Instruments& instruments = *profile.instruments;
  const auto add_whole = [&](const PhaseActivity& part) {
    profile::TracedStep& whole = *instruments.whole;
    whole.kernels += part.kernels;
    whole.launches += part.launches;
    whole.long_gaps += part.long_gaps;
    whole.long_gap_seconds += part.long_gap_seconds;
    whole.idle_seconds += part.idle_seconds;
  };
  instruments.whole.emplace();
  add_whole(activity.outside);
  for (std::size_t i = 0; i < activity.by_phase.size(); ++i) {
    const PhaseActivity& phase = activity.by_phase[i];
    profile.kernels.launches[i] = std::llround(phase.kernels);
    instruments.long_gaps[i] = phase.long_gaps;
    instruments.long_gap_seconds[i] = phase.long_gap_seconds;
    instruments.idle_seconds[i] = phase.idle_seconds;
    add_whole(phase);
  }
  profile.time.launch_bound = instruments.whole->idle_seconds;
  for (const char* field : {"instruments", "kernels.launches", "time.launch_bound_seconds"})
    profile.absent.erase(field);
  for (const char* field : fields) profile.absent.erase(field);
  if (!activity.whole_graph) return;
  for (const char* field : fields)
    profile.absent[field] = "a captured step has no phases: instruments.step has it as a whole";
  profile.absent["kernels.launches"] = "a captured step is launched as one, and has no phases";
}

void add_no_activity(profile::Profile& profile, const std::string& why_not) {
  if (!profile.instruments) profile.instruments.emplace();
  profile.absent.erase("instruments");
  for (const char* field : fields) profile.absent[field] = why_not;
}

}  // namespace ac_advisor::trace
