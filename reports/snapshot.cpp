// What a memory snapshot says: for a terminal, in Markdown and as CSV.
#include <fmt/format.h>

#include "ac_advisor/reports/snapshot.hpp"
#include "reports/snapshot_grids.hpp"

namespace ac_advisor::reports {
namespace {

std::string in_table(const std::vector<TitledGrid>& grids, const Style& style) {
  std::string text;
  for (const TitledGrid& g : grids)
    text += "\n" + bold(wrap(printable(g.title), style.width), style.color) + "\n" +
            g.grid.text(style.color, style.width);
  return text;
}

std::string in_markdown(const std::vector<TitledGrid>& grids) {
  std::string text;
  for (const TitledGrid& g : grids)
    text += "\n### " + escape_markdown(g.title) + "\n\n" + g.grid.markdown();
  return text;
}

std::string listed(const std::vector<std::string>& sentences, const Style& style) {
  std::string text;
  for (const std::string& s : sentences) text += wrap(printable(s), style.width) + "\n";
  return text;
}

std::string bullets(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& s : sentences) text += "- " + escape_markdown(s) + "\n";
  return text;
}

std::string notes(const snapshot::Analysis& a, const Style& style) {
  std::string text;
  for (const std::string& note : a.notes)
    text += wrap("note: " + printable(note), style.width) + "\n";
  return text.empty() ? text : "\n" + text;
}

std::string title(const snapshot::Analysis& a) {
  return fmt::format("{}, device {}: peak allocated {} GiB", a.origin, a.device,
                     gib(a.peak_allocated));
}

std::string matching(const snapshot::Against& r) {
  return fmt::format(
      "{} of {} planned tensors have a block of their size ({} GiB), {} of them in the same "
      "category; the snapshot has {} blocks",
      grouped(r.matched), grouped(r.planned_blocks), gib(r.matched_bytes),
      grouped(r.matched_category), grouped(r.measured_blocks));
}

}  // namespace

std::string table(const snapshot::Analysis& a, const Style& style) {
  return bold(wrap(printable(title(a)), style.width), style.color) + "\n" +
         listed(sentences(a), style) + in_table(grids(a, style.rows), style) + notes(a, style);
}

std::string markdown(const snapshot::Analysis& a) {
  return "## " + escape_markdown(title(a)) + "\n\n" + bullets(sentences(a)) +
         in_markdown(grids(a, 50)) + (a.notes.empty() ? "" : "\n" + bullets(a.notes));
}

std::string csv(const snapshot::Analysis& a) {
  Grid grid({"bytes", "requested_bytes", "category", "where", "address", "stream", "born_event",
             "freed_event", "metadata"});
  for (const snapshot::LiveBlock& b : a.live)
    grid.row({std::to_string(b.size), std::to_string(b.requested), profile::to_string(b.category),
              b.where, fmt::format("{:#x}", b.address), std::to_string(b.stream),
              b.born < 0 ? "" : std::to_string(b.born),
              b.freed >= a.events ? "" : std::to_string(b.freed), b.metadata});
  return grid.csv();
}

std::string table(const snapshot::Against& r, const Style& style) {
  return bold(wrap(printable(r.plan + " beside " + r.analysis.origin), style.width), style.color) +
         "\n" + listed(r.findings, style) + listed({matching(r)}, style) +
         in_table(grids(r, style.rows), style) + notes(r.analysis, style);
}

std::string markdown(const snapshot::Against& r) {
  std::vector<std::string> all = r.findings;
  all.push_back(matching(r));
  return "## " + escape_markdown(r.plan + " beside " + r.analysis.origin) + "\n\n" + bullets(all) +
         in_markdown(grids(r, 50));
}

std::string csv(const snapshot::Against& r) {
  Grid grid({"kind", "name", "planned_bytes", "measured_bytes"});
  const auto add = [&](const char* kind, const std::vector<snapshot::Beside>& rows) {
    for (const snapshot::Beside& b : rows)
      grid.row({kind, b.name, std::to_string(b.planned),
                b.is_measured ? std::to_string(b.measured) : ""});
  };
  add("total", r.totals);
  add("category", r.categories);
  add("phase", r.phases);
  return grid.csv();
}

std::string table(const snapshot::Growth& g, const Style& style) {
  return listed(sentences(g), style) + in_table(grids(g, style.rows), style);
}

std::string markdown(const snapshot::Growth& g) {
  return bullets(sentences(g)) + in_markdown(grids(g, 50));
}

std::string csv(const snapshot::Growth& g) {
  Grid grid({"where", "category", "a_bytes", "b_bytes", "a_blocks", "b_blocks"});
  for (const snapshot::Growth::Row& r : g.rows)
    grid.row({r.where, profile::to_string(r.category), std::to_string(r.a), std::to_string(r.b),
              std::to_string(r.a_blocks), std::to_string(r.b_blocks)});
  return grid.csv();
}

}  // namespace ac_advisor::reports
