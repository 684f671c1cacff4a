#include <algorithm>

#include "ac_advisor/snapshot/analysis.hpp"
#include "ac_advisor/version.hpp"

namespace ac_advisor::snapshot {
namespace {

constexpr std::size_t most_points = 400;

std::uint8_t phase_at(const Analysis& a, std::int64_t event) {
  // The timeline of a profile has no setup: it counts as forward.
  for (const StepSummary& s : a.steps)
    if (event >= s.begin && event < s.end) {
      for (std::size_t p = 0; p < s.peak_by_phase.size(); ++p)
        if (s.phase_ends[p] > event) return static_cast<std::uint8_t>(p);
    }
  return 0;
}

}  // namespace

profile::Profile to_profile(const Analysis& a) {
  profile::Profile p;
  p.source = "measured";
  p.tool_version = version;
  p.device_name = "device " + std::to_string(a.device) + " of " + a.origin;
  profile::Memory& m = p.memory;
  m.peak_allocated = a.peak_allocated;
  m.peak_reserved = a.peak_reserved;
  m.peak_phase = a.peak_phase;
  m.peak_step = std::max<std::int64_t>(0, a.peak_event);
  m.peak_module = a.peak_where;
  m.at_peak = a.at_peak;
  m.peak_by_phase = a.peak_by_phase;
  for (const Site& s : a.sites)
    m.at_peak_by_module[s.where.empty() ? "(no frames)" : s.where] += s.bytes;
  for (const LiveBlock& b : a.live) {
    if (m.largest.size() == 10) break;
    m.largest.push_back({b.where, "", "", "", b.category, b.size});
  }
  const std::size_t stretch = (a.timeline.size() + most_points - 1) / most_points;
  for (std::size_t i = 0; i < a.timeline.size(); i += std::max<std::size_t>(1, stretch)) {
    const auto end =
        a.timeline.begin() + static_cast<std::ptrdiff_t>(std::min(a.timeline.size(), i + stretch));
    const auto top = std::max_element(
        a.timeline.begin() + static_cast<std::ptrdiff_t>(i), end,
        [](const Moment& x, const Moment& y) { return x.allocated() < y.allocated(); });
    m.timeline.push_back({static_cast<std::int32_t>(std::min<std::int64_t>(top->event, 1 << 30)),
                          phase_at(a, top->event), top->allocated()});
  }

  const std::string reason = "a memory snapshot does not tell it";
  for (const char* field :
       {"model", "parameters", "config", "kernels", "time", "fit",
        "memory.peak_excluding_workspace_bytes", "memory.peak_by_phase_excluding_workspace"})
    p.absent[field] = reason;
  const auto complete = std::count_if(a.steps.begin(), a.steps.end(),
                                      [](const StepSummary& s) { return s.complete; });
  if (complete == 0) {
    for (const char* field : {"memory.resident_bytes", "memory.first_step_peak_bytes"})
      p.absent[field] = a.how_steps;
  } else {
    if (a.began_allocated == 0)
      m.first_step_peak = a.steps.front().peak_allocated;
    else
      p.absent["memory.first_step_peak_bytes"] = "the recorded history begins later";
    m.resident = a.steps.back().begins_with;
  }
  for (std::size_t i = 0; i < m.peak_by_phase.size(); ++i)
    if (m.peak_by_phase[i] == 0)
      p.absent[std::string("memory.peak_by_phase.") + profile::phase_names[i]] =
          "no event of this phase was told apart";
  p.warnings = a.notes;
  return p;
}

}  // namespace ac_advisor::snapshot
