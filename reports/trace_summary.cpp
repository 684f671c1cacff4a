// What one trace says, for the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ac_advisor/reports/diagnosis.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

constexpr std::size_t rows_shown = 8;

double a_step(std::int64_t total, const trace::Side& side) {
  return static_cast<double>(total) / static_cast<double>(side.steps);
}

std::string ms(std::int64_t ns, const trace::Side& side) {
  return fmt::format("{:.4g}", 1e-6 * a_step(ns, side));
}

std::string times(std::int64_t count, const trace::Side& side) {
  return fmt::format("{:.4g}", a_step(count, side));
}

/// The longest first.
template <typename Total>
std::vector<std::pair<std::string, Total>> sorted(const std::map<std::string, Total>& totals,
                                                  std::int64_t Total::*by) {
  std::vector<std::pair<std::string, Total>> list(totals.begin(), totals.end());
  std::stable_sort(list.begin(), list.end(),
                   [by](const auto& a, const auto& b) { return a.second.*by > b.second.*by; });
  return list;
}

Grid phase_grid(const trace::Side& side) {
  Grid grid({"phase, a step", "launches", "kernels", "kernel ms"});
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    if (side.kernels[i] > 0)
      grid.row({trace::phase_names[i], fmt::format("{:.4g}", side.launches[i]),
                fmt::format("{:.4g}", side.kernels[i]),
                fmt::format("{:.4g}", 1e3 * side.kernel_seconds[i])});
  return grid;
}

/// Over all phases.
std::map<std::string, trace::KernelTotal> kernels_by_name(const trace::Side& side,
                                                          const trace::Trace& trace) {
  std::map<std::string, trace::KernelTotal> totals;
  for (const trace::KernelTotal& kernel : trace.kernels)
    if (kernel.window == side.window) {
      totals[kernel.name].count += kernel.count;
      totals[kernel.name].ns += kernel.ns;
    }
  return totals;
}

Grid kernel_grid(const trace::Side& side,
                 const std::map<std::string, trace::KernelTotal>& kernels) {
  Grid grid({"kernel, a step", "times", "ms"});
  std::size_t shown = 0;
  for (const auto& [name, total] : sorted(kernels, &trace::KernelTotal::ns)) {
    if (shown++ == rows_shown) break;
    grid.row({name, times(total.count, side), ms(total.ns, side)});
  }
  return grid;
}

Grid range_grid(const trace::Side& side, const trace::Trace& trace) {
  std::map<std::string, trace::Work> totals;
  for (const trace::RangeTotal& range : trace.ranges)
    if (range.window == side.window && !range.path.empty())
      trace::add(totals[range.path], range.work);
  Grid grid({"range, a step", "launches", "kernel ms", "gaps > 50 us", "copied MB"});
  std::size_t shown = 0;
  for (const auto& [path, work] : sorted(totals, &trace::Work::kernel_ns)) {
    if (shown++ == rows_shown) break;
    grid.row({path, times(work.launches, side), ms(work.kernel_ns, side),
              times(work.long_gaps, side),
              fmt::format("{:.4g}", 1e-6 * a_step(work.copy_bytes, side))});
  }
  return grid;
}

}  // namespace

std::string table(const trace::Side& side, const trace::Trace& trace, const Style& style) {
  std::string text =
      wrap(printable(fmt::format(
               "{}{}: {:.4g} ms {}, the device busy for {:.4g} ms", side.source,
               side.device.empty() ? "" : ", " + side.device, 1e3 * side.seconds,
               side.steps_known ? fmt::format("a step over {}", side.steps) : std::string("in all"),
               1e3 * side.busy_seconds)) +
               "\n",
           80);
  const auto peak = [&](const char* what, const std::optional<std::int64_t>& bytes) {
    if (bytes) text += fmt::format("peak memory {}: {} GiB\n", what, gib(*bytes));
  };
  peak("allocated", side.memory.allocated);
  peak("reserved", side.memory.reserved);
  peak("of the process", side.memory.process);
  peak("of the device, sampled", side.memory.device_used);
  const auto kernels = kernels_by_name(side, trace);
  text += "\n" + phase_grid(side).text(style.color) + "\n" +
          kernel_grid(side, kernels).text(style.color);
  if (kernels.size() > rows_shown)
    text += fmt::format("  [{} others]\n", kernels.size() - rows_shown);
  const bool in_ranges = std::any_of(
      trace.ranges.begin(), trace.ranges.end(),
      [&](const trace::RangeTotal& r) { return r.window == side.window && !r.path.empty(); });
  if (in_ranges) text += "\n" + range_grid(side, trace).text(style.color);
  for (const std::string& note : trace.notes) text += wrap("note: " + printable(note) + "\n", 80);
  return text;
}

}  // namespace ac_advisor::reports
