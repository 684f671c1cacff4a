// Markdown, for a pull request's comment.
#include <fmt/format.h>

#include <algorithm>

#include "reports/emulated.hpp"
#include "reports/grids.hpp"
#include "reports/without_model.hpp"

namespace ac_advisor::reports {
namespace {

std::string notes(const profile::Profile& p) {
  std::string text;
  if (p.evidence) text += "- evidence: " + escape_markdown(evidence::sentence(*p.evidence)) + "\n";
  for (const std::string& w : p.warnings) text += "- **warning:** " + escape_markdown(w) + "\n";
  for (const std::string& n : p.assumptions) text += "- " + escape_markdown(n) + "\n";
  return text.empty() ? text : "\n" + text;
}

std::string others(std::size_t all, std::size_t shown) {
  return all > shown ? fmt::format("\n{} others.\n", all - shown) : "";
}

/// GitHub takes comments of 65,536 characters.
std::string comment(std::string text) {
  constexpr std::size_t most = 60'000;
  if (text.size() <= most) return text;
  const std::size_t line = text.rfind('\n', most);
  text.resize(line == std::string::npos ? 0 : line + 1);
  return text + "\nCut here: a comment holds no more. --format html has all of it.\n";
}

}  // namespace

std::string markdown(const profile::Profile& p) {
  if (p.emulation) return comment(emulated_markdown(p));
  if (!p.has("model")) return markdown_without_model(p);
  Grid head(
      {"model", "peak GiB", "reserved GiB", "phase", "fits", time_unit(p.time.basis, "ms/step")});
  const bool reserved = !p.absent.contains("memory.peak_reserved_bytes"),
             fit = !p.absent.contains("fit");
  head.row({p.model.name, gib(p.memory.peak_allocated),
            reserved ? gib(p.memory.peak_reserved) : "not measured", p.memory.peak_phase,
            !fit         ? "not measured"
            : p.fit.fits ? "yes"
                         : "no",
            milliseconds(p.time.step)});
  return comment(escape_markdown(title(p)) + "\n\n" + head.markdown() + "\n" +
                 (p.task_phases.empty() ? std::string()
                                        : task_phase_grid(p).markdown() + "\n" +
                                              escape_markdown(task_phase_note(p)) + "\n") +
                 category_grid(p).markdown() + "\n" + phase_grid(p).markdown() + notes(p));
}

std::string markdown(const advise::Sweep& sweep) {
  std::string text = "### Savings, cumulative\n\n" + savings_grid(sweep).markdown();
  if (const std::string note = not_planned_note(sweep); !note.empty())
    text += "\n" + escape_markdown(note) + "\n";
  text += fmt::format("\n### Ranked by {} throughput\n\n{}{}.\n\n", time_word(time_basis(sweep)),
                      batch_note(sweep), chunk_note(sweep)) +
          ranking_grid(sweep, 20).markdown();
  text += others(sweep.rows.size(), 20);
  if (const std::string note = unavailable_note(sweep); !note.empty())
    text += "\n" + escape_markdown(note) + "\n";
  if (const Grid grid = layout_grid(sweep); !grid.rows().empty())
    text += "\n### Layouts, the best of each\n\n" + grid.markdown() + "\n" +
            escape_markdown(layout_note(sweep)) + "\n";
  return comment(text + "\n**Recommendation:** " + escape_markdown(sweep.recommendation) + "\n");
}

std::string markdown(const profile::Diff& d) {
  std::string text;
  if (!d.fields.empty()) text += field_grid(d.fields).markdown() + "\n";
  std::vector<profile::Change> modules = d.modules;
  modules.resize(std::min<std::size_t>(modules.size(), 12));
  return comment(text + change_grid("GiB", d.totals, true).markdown() + "\n" +
                 change_grid("at the peak, by category", d.categories, true).markdown() + "\n" +
                 change_grid("at the peak, by module", modules, true).markdown() +
                 others(d.modules.size(), modules.size()) + "\n" +
                 change_grid("peak of each phase", d.phases, true).markdown() + "\n" +
                 change_grid("launches", d.launches, false).markdown());
}

std::string markdown(const SweepDiff& d) {
  std::string text;
  if (!d.fields.empty()) text += field_grid(d.fields).markdown() + "\n";
  return comment(text + row_change_grid(d, 20).markdown() + others(d.rows.size(), 20) +
                 "\n**A recommends:** " + escape_markdown(d.a_recommendation) +
                 "\n\n**B recommends:** " + escape_markdown(d.b_recommendation) + "\n");
}

std::string markdown(const Explanation& e) {
  std::string text = markdown(e.profile) + "\n" + largest_grid(e.profile).markdown() + "\n";
  for (const std::string& sentence : e.sentences) text += "- " + escape_markdown(sentence) + "\n";
  if (!e.modules.kinds.empty())
    text += "\n" + module_grid(e.modules, e.profile.time.basis).markdown() + "\n" +
            escape_markdown(module_note(e.modules)) + "\n";
  return comment(text);
}

std::string markdown(const Trace& trace) {
  std::string text = trace_grid(trace).markdown() + "\n";
  std::size_t number = 0;
  for (const std::string& reason : trace_reasons(trace))
    text += fmt::format("{}. {}\n", ++number, escape_markdown(reason));
  return comment(text);
}

}  // namespace ac_advisor::reports
