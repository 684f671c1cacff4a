#include "reports/trace_bars.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reports/trace_grids.hpp"

namespace ac_advisor::reports {
namespace {

using trace::Figures;

void add(Bars& bars, const std::string& name, double seconds, const char* mark) {
  if (seconds > 1e-12) bars.bars.push_back({name, seconds, duration(seconds), mark});
}

/// Without those that have no bar.
std::vector<Bars> used(std::vector<Bars> list) {
  std::erase_if(list, [](const Bars& bars) { return bars.bars.empty(); });
  return list;
}

Bars time_bars(const std::string& title, const Figures& f) {
  Bars bars{title, {}};
  add(bars, "busy", f.busy_seconds, "c0");
  add(bars, "idle: host", f.idle_host_seconds, "c1");
  add(bars, "idle: kernel", f.idle_kernel_seconds, "c2");
  add(bars, "idle: other", f.idle_other_seconds, "c3");
  add(bars, "idle: cause not known", f.idle_unknown_seconds(), "c4");
  add(bars, "exposed communication", f.exposed_communication_seconds, "c5");
  return bars;
}

}  // namespace

std::vector<Bars> trace_bars(const trace::Summary& s) {
  const std::string scope = s.step ? "a step" : "the whole trace";
  Bars phases{"Kernel time by phase, " + scope, {}}, kinds{"Kernel time by kind, all", {}};
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    add(phases, trace::phase_names[i], s.phases[i].kernel_seconds, "c0");
  for (const auto& [kind, seconds] : s.seconds_by_kind) {
    std::string words = kind;
    std::replace(words.begin(), words.end(), '_', ' ');
    add(kinds, words, seconds, "c2");
  }
  std::stable_sort(kinds.bars.begin(), kinds.bars.end(),
                   [](const Bars::Bar& a, const Bars::Bar& b) { return a.value > b.value; });
  return used({time_bars("Time of " + scope, s.shown()), phases, kinds});
}

std::vector<Bars> trace_bars(const trace::Ranks& ranks) {
  Bars compute{"Kernels that compute, by rank", {}}, exposed{"Exposed communication, by rank", {}},
      idle{"Idle, by rank", {}};
  for (const trace::RankSummary& r : ranks.ranks) {
    const std::string name = r.rank ? std::to_string(*r.rank) : r.origin;
    add(compute, name, r.step.compute_seconds(), "c0");
    add(exposed, name, r.step.exposed_communication_seconds, "c5");
    add(idle, name, r.step.idle_seconds, "c1");
  }
  return used({compute, exposed, idle});
}

std::vector<Bars> trace_bars(const trace::Diagnosis& d) {
  Bars steps{"The two steps", {}}, parts{"Where B takes longer", {}}, again{"What runs again", {}};
  add(steps, "A busy", d.a.busy_seconds, "c0");
  add(steps, "A idle", d.a.idle_seconds, "c1");
  add(steps, "B busy", d.b.busy_seconds, "c0");
  add(steps, "B idle", d.b.idle_seconds, "c1");
  for (const trace::OverheadPart& part : d.overhead) add(parts, part.name, part.seconds, "c2");
  constexpr std::size_t most = 6;
  for (const trace::Hotspot& h : d.hotspots)
    if (again.bars.size() < most)
      add(again,
          (h.module.empty() ? "" : h.module.substr(h.module.find_last_of('.') + 1) + ", ") +
              (h.op.empty() ? "op not told" : h.op),
          h.seconds, "c3");
  return used({steps, parts, again});
}

Json bars_json(const Bars& bars) {
  Json out{{"title", bars.title}, {"rows", Json::array()}};
  for (const Bars::Bar& bar : bars.bars)
    out["rows"].push_back(
        {{"name", bar.name}, {"value", bar.value}, {"word", bar.word}, {"mark", bar.mark}});
  return out;
}

}  // namespace ac_advisor::reports
