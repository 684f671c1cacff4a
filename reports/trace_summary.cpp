// What one trace says, for the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/reports/diagnosis.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

constexpr std::size_t rows_shown = 8;

std::string ms(std::int64_t ns) { return fmt::format("{:.4g}", 1e-6 * static_cast<double>(ns)); }

Grid phase_grid(const trace::Side& side) {
  Grid grid({"phase, a step", "launches", "kernels", "kernel ms"});
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    if (side.kernels[i] > 0)
      grid.row({trace::phase_names[i], fmt::format("{:.4g}", side.launches[i]),
                fmt::format("{:.4g}", side.kernels[i]),
                fmt::format("{:.4g}", 1e3 * side.kernel_seconds[i])});
  return grid;
}

Grid kernel_grid(const trace::Trace& trace) {
  Grid grid({"kernel, whole trace", "times", "ms"});
  for (std::size_t i = 0; i < std::min(rows_shown, trace.kernels.size()); ++i)
    grid.row({trace.kernels[i].name, grouped(trace.kernels[i].count), ms(trace.kernels[i].ns)});
  return grid;
}

Grid range_grid(std::vector<trace::RangeTotal> ranges) {
  std::erase_if(ranges, [](const trace::RangeTotal& r) { return r.path.empty(); });
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const trace::RangeTotal& a, const trace::RangeTotal& b) {
                     return a.work.kernel_ns > b.work.kernel_ns;
                   });
  Grid grid({"range, whole trace", "launches", "kernel ms", "gaps > 50 us", "copied MB"});
  for (std::size_t i = 0; i < std::min(rows_shown, ranges.size()); ++i)
    grid.row({ranges[i].path, grouped(ranges[i].work.launches), ms(ranges[i].work.kernel_ns),
              grouped(ranges[i].work.long_gaps),
              fmt::format("{:.4g}", 1e-6 * static_cast<double>(ranges[i].work.copy_bytes))});
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
  text += "\n" + phase_grid(side).text(style.color) + "\n" + kernel_grid(trace).text(style.color);
  if (trace.kernels.size() > rows_shown)
    text += fmt::format("  [{} others]\n", trace.kernels.size() - rows_shown);
  if (std::any_of(trace.ranges.begin(), trace.ranges.end(),
                  [](const trace::RangeTotal& r) { return !r.path.empty(); }))
    text += "\n" + range_grid(trace.ranges).text(style.color);
  for (const std::string& note : trace.notes) text += wrap("note: " + printable(note) + "\n", 80);
  return text;
}

}  // namespace ac_advisor::reports
