#include "reports/trace_grids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ac_advisor::reports {
namespace {

using trace::Figures;
using trace::Summary;
using trace::SummaryRow;

std::string number(double value) { return fmt::format("{:.4g}", value); }
std::string milliseconds_of(double seconds) { return number(1e3 * seconds); }
std::string megabytes(double bytes) { return number(1e-6 * bytes); }

/// What the figures of a summary are of.
std::string scope(const Summary& s) {
  return s.step ? fmt::format("a step (mean of {})", s.step_count) : std::string("the whole trace");
}

Grid phase_grid(const Summary& s) {
  if (!s.on_gpu) {
    Grid grid({"phase", "dispatches"});
    for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
      if (s.phases[i].dispatches > 0)
        grid.row({trace::phase_names[i], number(s.phases[i].dispatches)});
    return grid;
  }
  Grid grid({"phase", "launches", "kernels", "kernel ms", "busy ms", "idle ms", "gaps > 50 us"});
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i) {
    const Figures& f = s.phases[i];
    if (f.kernels + f.graphs + f.launches > 0)
      grid.row({trace::phase_names[i], s.launches_recorded ? number(f.launches) : "–",
                f.graphs > 0 ? fmt::format("{} in {} graphs", number(f.kernels), number(f.graphs))
                             : number(f.kernels),
                milliseconds_of(f.kernel_seconds), milliseconds_of(f.busy_seconds),
                milliseconds_of(f.idle_seconds), number(f.long_gaps)});
  }
  return grid;
}

Grid idle_grid(const Summary& s) {
  Grid grid({"idle, by cause", "ms", "of the time"});
  const Figures& f = s.shown();
  const auto row = [&](const char* name, double seconds) {
    if (seconds > 1e-12) grid.row({name, milliseconds_of(seconds), share(seconds, f.seconds())});
  };
  row("host: nothing was launched in time", f.idle_host_seconds);
  row("kernel: the queued one had yet to begin", f.idle_kernel_seconds);
  row("other: queued, but held by a stream or rank", f.idle_other_seconds);
  row("not known: the launch is not in the trace", f.idle_unknown_seconds());
  return grid;
}

Grid kind_grid(const Summary& s) {
  Grid grid({"kernels, by kind", "ms", "of kernel time"});
  std::vector<std::pair<std::string, double>> kinds(s.seconds_by_kind.begin(),
                                                    s.seconds_by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [kind, seconds] : kinds) {
    std::string words = kind;
    std::replace(words.begin(), words.end(), '_', ' ');
    grid.row({words, milliseconds_of(seconds), share(seconds, s.whole.kernel_seconds)});
  }
  return grid;
}

Grid kernel_grid(const Summary& s, std::size_t rows) {
  Grid grid({"kernel", "kind", "times", "ms", "of kernel time"});
  for (const SummaryRow& row : s.kernels) {
    if (grid.rows().size() == rows) break;
    grid.row({row.name, row.kind, grouped(row.count), milliseconds_of(row.seconds),
              share(row.seconds, s.whole.kernel_seconds)});
  }
  return grid;
}

Grid op_grid(const Summary& s, std::size_t rows) {
  Grid grid({"op", "calls", "CPU ms", "kernel ms"});
  for (const SummaryRow& row : s.ops) {
    if (grid.rows().size() == rows) break;
    grid.row({row.name, grouped(row.count), milliseconds_of(row.host_seconds),
              milliseconds_of(row.seconds)});
  }
  return grid;
}

/// What tells two rows apart stands at their ends: a long one is cut at its front.
std::string end_of(const std::string& path) {
  constexpr std::size_t most = 46;
  if (columns(path) <= most) return path;
  std::size_t from = path.size() - most;
  while (from < path.size() && (static_cast<unsigned char>(path[from]) & 0xC0U) == 0x80U) ++from;
  return "…" + path.substr(from);
}

Grid place_grid(const std::vector<SummaryRow>& list, const char* head, std::size_t rows) {
  const bool modules = std::any_of(list.begin(), list.end(),
                                   [](const SummaryRow& row) { return row.instances > 1; });
  Grid grid(modules ? std::vector<std::string>{head, "instances", "kernels", "kernel ms"}
                    : std::vector<std::string>{head, "kernels", "kernel ms"});
  for (const SummaryRow& row : list) {
    if (grid.rows().size() == rows) break;
    if (row.count == 0) continue;
    std::vector<std::string> cells{end_of(row.name)};
    if (modules) cells.push_back(grouped(row.instances));
    cells.push_back(grouped(row.count));
    cells.push_back(milliseconds_of(row.seconds));
    grid.row(std::move(cells));
  }
  return grid;
}

Grid copy_grid(const Summary& s) {
  Grid grid({"copies", "times", "MB", "ms"});
  for (const SummaryRow& row : s.copies)
    grid.row({row.name, grouped(row.count), megabytes(static_cast<double>(row.bytes)),
              milliseconds_of(row.seconds)});
  return grid;
}

Grid gap_grid(const Summary& s, std::size_t rows) {
  Grid grid({"gap, at ms", "us", "phase", "before"});
  for (const trace::Gap& gap : s.gaps) {
    if (grid.rows().size() == rows) break;
    grid.row({number(1e-6 * static_cast<double>(gap.start_ns)),
              number(1e-3 * static_cast<double>(gap.ns)),
              trace::phase_names[static_cast<std::size_t>(gap.phase)], gap.after});
  }
  return grid;
}

Grid recomputed_grid(const trace::Recomputation& again, std::size_t rows) {
  Grid grid({"module", "op", "kernels", "ms", "of it"});
  for (const SummaryRow& row : again.by_module_and_op) {
    if (grid.rows().size() == rows) break;
    grid.row({end_of(row.name), row.kind, grouped(row.count), milliseconds_of(row.seconds),
              share(row.seconds, again.seconds)});
  }
  return grid;
}

std::size_t beyond(std::size_t all, const Grid& grid) {
  return all > grid.rows().size() ? all - grid.rows().size() : 0;
}

}  // namespace

std::string duration(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1) return fmt::format("{:.4g} s", seconds);
  if (size >= 1e-3 || size == 0) return fmt::format("{:.4g} ms", 1e3 * seconds);
  return fmt::format("{:.4g} us", 1e6 * seconds);
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "";
}

std::vector<TitledGrid> grids(const Summary& s, std::size_t rows) {
  std::vector<TitledGrid> list;
  const auto add = [&](const std::string& title, Grid grid, std::size_t all = 0) {
    if (grid.rows().empty()) return;
    const std::size_t left_out = beyond(all, grid);
    list.push_back({title, std::move(grid), left_out});
  };
  add("Phases of " + scope(s), phase_grid(s));
  if (s.on_gpu) {
    add("Idle time of " + scope(s), idle_grid(s));
    add("Kernel time of the whole trace", kind_grid(s));
    add("Kernels of the whole trace", kernel_grid(s, rows), s.kernels.size());
  }
  if (s.recomputation)
    add("Recomputation of the whole trace", recomputed_grid(*s.recomputation, rows),
        s.recomputation->by_module_and_op.size());
  add("Modules of the whole trace", place_grid(s.modules, "module", rows), s.modules.size());
  add("Ranges of the whole trace", place_grid(s.ranges, "range", rows));
  add("Ops of the whole trace", op_grid(s, rows), s.ops.size());
  add("Copies of the whole trace", copy_grid(s));
  add("Longest gaps of the whole trace", gap_grid(s, rows), s.gaps.size());
  return list;
}

std::vector<TitledGrid> grids(const trace::Ranks& ranks) {
  Grid grid({"rank", "steps", "ms", "busy", "idle", "compute", "comm.", "exposed", "trace"});
  for (const trace::RankSummary& r : ranks.ranks)
    grid.row({r.rank ? std::to_string(*r.rank) : "?", std::to_string(r.steps),
              milliseconds_of(r.step.seconds()), milliseconds_of(r.step.busy_seconds),
              milliseconds_of(r.step.idle_seconds), milliseconds_of(r.step.compute_seconds()),
              milliseconds_of(r.step.communication_seconds),
              milliseconds_of(r.step.exposed_communication_seconds),
              r.origin.substr(r.origin.find_last_of('/') + 1)});
  return {{"Ranks, milliseconds per step", std::move(grid)}};
}

}  // namespace ac_advisor::reports
