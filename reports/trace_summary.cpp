// What one trace says, and what those of a run's ranks say together.
#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/reports/trace_summary.hpp"
#include "reports/trace_grids.hpp"

namespace ac_advisor::reports {
namespace {

using trace::Figures;
using trace::Summary;

constexpr std::size_t rows_shown = 8;

std::string heading(const Summary& s) {
  std::string text = s.origin.empty() ? s.source : fmt::format("{} ({})", s.origin, s.source);
  if (!s.device.empty()) text += ", " + s.device;
  if (s.rank) text += fmt::format(", rank {}", *s.rank);
  return text;
}

template <typename Value>
std::string as_table(const Value& value, const std::vector<TitledGrid>& tables,
                     const std::string& head, const Style& style) {
  std::string text = wrap(printable(head) + "\n", style.width);
  for (const std::string& line : sentences(value))
    text += wrap(printable(line) + "\n", style.width);
  for (const TitledGrid& table : tables) {
    text +=
        "\n" + bold(table.title, style.color) + "\n" + table.grid.text(style.color, style.width);
    if (table.left_out > 0) text += fmt::format("  … {} more\n", table.left_out);
  }
  return text;
}

template <typename Value>
std::string as_markdown(const Value& value, const std::vector<TitledGrid>& tables,
                        const std::string& head) {
  std::string text = escape_markdown(head) + "\n\n";
  for (const std::string& line : sentences(value)) text += "- " + escape_markdown(line) + "\n";
  for (const TitledGrid& table : tables) {
    text += "\n### " + escape_markdown(table.title) + "\n\n" + table.grid.markdown();
    if (table.left_out > 0) text += fmt::format("\n{} others are left out.\n", table.left_out);
  }
  return text;
}

std::string notes_and(const std::vector<Summary>& summaries, const Style& style) {
  std::string text;
  for (const Summary& s : summaries)
    for (const std::string& note : s.notes)
      if (note.find("left out") != note.npos || note.find("not valid JSON") != note.npos)
        text += wrap(printable(s.origin + ": " + note) + "\n", style.width);
  return text.empty() ? text : "\n" + bold("Notes", style.color) + "\n" + text;
}

}  // namespace

std::vector<std::string> sentences(const Summary& s) {
  std::vector<std::string> list;
  const Figures& f = s.shown();
  if (s.on_gpu) {
    list.push_back(
        fmt::format("{}: {}; the device is busy for {} ({}) and idles for {}",
                    s.step ? fmt::format("{} steps, a step (mean of {})", s.steps, s.step_count)
                           : std::string("in all"),
                    duration(f.seconds()), duration(f.busy_seconds),
                    share(f.busy_seconds, f.seconds()), duration(f.idle_seconds)));
    list.push_back(fmt::format(
        "in all: busy for {}, {} kernels{}{}, {:.4g} MB copied", duration(s.whole.busy_seconds),
        grouped(static_cast<std::int64_t>(s.whole.kernels)),
        s.whole.graphs > 0 ? fmt::format(" and {:.0f} executions of CUDA graphs", s.whole.graphs)
                           : std::string(),
        s.launches_recorded
            ? fmt::format(", {} launches", grouped(static_cast<std::int64_t>(s.whole.launches)))
            : std::string(),
        1e-6 * s.whole.memcpy_bytes));
  } else {
    list.push_back(
        fmt::format("{} dispatches{}", grouped(static_cast<std::int64_t>(s.whole.dispatches)),
                    s.step ? fmt::format(" in {} steps, {:.4g} a step", s.steps, f.dispatches)
                           : std::string()));
  }
  if (f.communication_seconds > 0)
    list.push_back(fmt::format("communication: {}, of which {} with no other kernel beside it",
                               duration(f.communication_seconds),
                               duration(f.exposed_communication_seconds)));
  if (s.recomputation && s.recomputation->seconds > 0) {
    const trace::SummaryRow& most = s.recomputation->by_module_and_op.front();
    list.push_back(
        fmt::format("recomputation: {} of kernels ({} of the kernel time), most of it in {}, {}",
                    duration(s.recomputation->seconds),
                    share(s.recomputation->seconds, s.whole.kernel_seconds), most.name, most.kind));
  }
  const auto peak = [&](const char* what, const std::optional<std::int64_t>& bytes) {
    if (bytes) list.push_back(fmt::format("peak memory {}: {} GiB", what, gib(*bytes)));
  };
  peak("allocated", s.memory.allocated);
  peak("reserved", s.memory.reserved);
  peak("of the process", s.memory.process);
  peak("of the device, sampled", s.memory.device_used);
  if (s.processes > 1)
    list.push_back(fmt::format("{} processes; pid {} is told of", s.processes, s.pid));
  for (const std::string& note : s.notes) list.push_back("note: " + note);
  return list;
}

std::vector<std::string> sentences(const trace::Ranks& ranks) {
  std::vector<std::string> list;
  const trace::RankSummary& slowest = ranks.ranks[ranks.slowest];
  list.push_back(fmt::format(
      "skew over {} ranks, (most - least) / mean: {:.1f} % of the step's time, {:.1f} % of the "
      "time in kernels that compute",
      ranks.ranks.size(), 100 * ranks.step_skew, 100 * ranks.compute_skew));
  list.push_back(fmt::format("rank {} computes longest ({}): the others wait for it in collectives",
                             slowest.rank ? std::to_string(*slowest.rank) : slowest.origin,
                             duration(slowest.step.compute_seconds())));
  for (const std::string& note : ranks.notes) list.push_back("note: " + note);
  return list;
}

std::string table(const Summary& s, const Style& style) {
  return as_table(s, grids(s, rows_shown), heading(s), style);
}

std::string markdown(const Summary& s) { return as_markdown(s, grids(s, rows_shown), heading(s)); }

std::string csv(const Summary& s) {
  Grid grid({"list", "name", "kind", "count", "seconds", "host_seconds", "bytes"});
  const auto add = [&](const char* list, const std::vector<trace::SummaryRow>& rows) {
    for (const trace::SummaryRow& row : rows)
      grid.row({list, row.name, row.kind, std::to_string(row.count), fmt::format("{}", row.seconds),
                fmt::format("{}", row.host_seconds), std::to_string(row.bytes)});
  };
  for (const trace::FigureField& field : trace::figure_fields)
    grid.row({"total", field.key, "", "", fmt::format("{}", s.whole.*field.member), "", ""});
  add("kernel", s.kernels);
  add("op", s.ops);
  add("module", s.modules);
  add("range", s.ranges);
  add("memcpy", s.copies);
  if (s.recomputation) add("recomputation", s.recomputation->by_module_and_op);
  return grid.csv();
}

std::string table(const RankSummaries& ranks, const Style& style) {
  return as_table(ranks.together, grids(ranks.together),
                  fmt::format("{}: {} ranks", ranks.origin, ranks.each.size()), style) +
         notes_and(ranks.each, style);
}

std::string markdown(const RankSummaries& ranks) {
  return as_markdown(ranks.together, grids(ranks.together),
                     fmt::format("{}: {} ranks", ranks.origin, ranks.each.size()));
}

std::string csv(const RankSummaries& ranks) {
  std::vector<std::string> head{"rank", "file", "steps", "seconds", "compute_seconds"};
  for (const trace::FigureField& field : trace::figure_fields) head.emplace_back(field.key);
  Grid grid(head);
  for (const trace::RankSummary& r : ranks.together.ranks) {
    std::vector<std::string> cells{r.rank ? std::to_string(*r.rank) : "", r.origin,
                                   std::to_string(r.steps), fmt::format("{}", r.step.seconds()),
                                   fmt::format("{}", r.step.compute_seconds())};
    for (const trace::FigureField& field : trace::figure_fields)
      cells.push_back(fmt::format("{}", r.step.*field.member));
    grid.row(std::move(cells));
  }
  return grid.csv();
}

}  // namespace ac_advisor::reports
