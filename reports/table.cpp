// The terminal renderer: for people, as wide as Style says.
#include <fmt/format.h>

#include <algorithm>

#include "reports/emulated.hpp"
#include "reports/grids.hpp"
#include "reports/room.hpp"
#include "reports/without_model.hpp"

namespace ac_advisor::reports {
namespace {

/// Columns of the line of memory over the step: eight less than the terminal has.
std::size_t sparkline_width(const Style& style) { return style.width - 8; }

/// First point of column `i` of `n`.
std::size_t first_point(std::size_t i, std::size_t n, std::size_t points) { return i * points / n; }

/// The timeline in one line: each character is the highest point of its stretch.
std::string sparkline(const std::vector<profile::TimelinePoint>& points, std::int64_t peak,
                      const Style& style) {
  static const char* const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char* const marks[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const char* const* const bars = style.utf8 ? blocks : marks;
  if (points.empty() || peak <= 0) return "";
  const std::size_t n = std::min(sparkline_width(style), points.size());
  std::string line;
  for (std::size_t column = 0; column < n; ++column) {
    std::int64_t high = 0;
    for (std::size_t i = first_point(column, n, points.size());
         i < first_point(column + 1, n, points.size()); ++i)
      high = std::max(high, points[i].allocated_bytes);
    const double share = std::min(1.0, static_cast<double>(high) / static_cast<double>(peak));
    line += bars[std::min<std::size_t>(7, static_cast<std::size_t>(8.0 * share))];
  }
  return line;
}

/// Below it: where each phase begins, if its stretch is as long as its name. Recompute runs inside
/// backward.
std::string phase_line(const std::vector<profile::TimelinePoint>& points, const Style& style) {
  constexpr std::size_t backward = 2, recompute = 3;
  const std::size_t n = std::min(sparkline_width(style), points.size());
  const auto phase = [&](std::size_t column) {
    const std::size_t at = points[first_point(column, n, points.size())].phase;
    return at == recompute ? backward : std::min(at, profile::phase_names.size() - 1);
  };
  std::string line;
  for (std::size_t from = 0, to = 0; from < n; from = to) {
    while (to < n && phase(to) == phase(from)) ++to;
    const std::string name = profile::phase_names[phase(from)];
    if (to - from < name.size() + 2) continue;
    line.append(from - line.size(), ' ');
    line += "|" + name;
  }
  return line;
}

std::string notes(const profile::Profile& p, const Style& style) {
  std::string text;
  for (const std::string& warning : p.warnings) text += "warning: " + printable(warning) + "\n";
  for (const std::string& note : p.assumptions) text += "note: " + printable(note) + "\n";
  return wrap(text, style.width);
}

std::string more(std::size_t rows) { return fmt::format("  … {} more (--rows N)\n", rows); }

/// Where the table of module kinds is.
constexpr const char* explain_note =
    "Next: ac-advisor explain, with the same options (which kind of module to checkpoint first)";

std::string heading(const profile::Profile& p, const Style& style) {
  return bold(wrap(title(p), style.width), style.color) + "\n";
}

std::string origins(const std::string& a, const std::string& b, const Style& style) {
  return wrap("A: " + printable(a) + "\nB: " + printable(b) + "\n", style.width) + "\n";
}

/// The modules that hold more or less, in their order; blocks that change alike are one row.
std::vector<profile::Change> changed_modules(const std::vector<profile::Change>& modules) {
  std::vector<profile::Change> rows;
  std::vector<std::size_t> blocks;  // of each row, how many
  for (const profile::Change& module : modules) {
    if (module.delta() == 0) continue;
    const bool block = module.name.starts_with("blocks.");
    const auto alike = std::find_if(rows.begin(), rows.end(), [&](const profile::Change& row) {
      return block && row.name.starts_with("blocks.") && row.a == module.a && row.b == module.b;
    });
    if (alike == rows.end()) {
      rows.push_back(module);
      blocks.push_back(1);
    } else {
      ++blocks[static_cast<std::size_t>(alike - rows.begin())];
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (blocks[i] > 1) rows[i].name = fmt::format("{} blocks, each", blocks[i]);
  return rows;
}

std::string verdict(const profile::Profile& p) {
  if (const auto why = p.absent.find("fit"); why != p.absent.end())
    return "fit: not measured: " + printable(why->second) + "\n";
  return room_text(p) + "\n";
}

}  // namespace

std::string wrap(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t line = 0;
  const auto next_line = [&] {
    out += "\n  ";
    line = 2;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    std::string word = text.substr(at, end - at);
    if (line > 0 && line + 1 + columns(word) > width) {
      next_line();
    } else if (line > 0) {
      out += ' ';
      ++line;
    }
    for (std::size_t i = 0; i < word.size();) {
      std::size_t next = i + 1;
      while (next < word.size() && (static_cast<unsigned char>(word[next]) & 0xC0U) == 0x80U)
        ++next;
      if (line == width) next_line();
      out += word.substr(i, next - i);
      ++line;
      i = next;
    }
    if (end < text.size() && text[end] == '\n') {
      out += '\n';
      line = 0;
    }
    at = end + 1;
  }
  return out;
}

std::string table(const profile::Profile& p, const Style& style) {
  if (p.emulation) return emulated_table(p, style);
  if (!p.has("model")) return table_without_model(p, style);
  std::string text = heading(p, style);
  text += bold(fmt::format("peak allocated {} GiB\n", gib(p.memory.peak_allocated)), style.color);
  text += fmt::format(
      "without workspaces {} GiB, reserved {}\n", gib(p.memory.peak_excluding_workspace),
      p.absent.contains("memory.peak_reserved_bytes") ? std::string("not measured")
                                                      : gib(p.memory.peak_reserved) + " GiB");
  text += wrap(
      printable(fmt::format("in {}, at {} of {}; first step {} GiB", p.memory.peak_phase,
                            p.memory.peak_op, p.memory.peak_module, gib(p.memory.first_step_peak))),
      style.width);
  text += "\n" + wrap(verdict(p), style.width);
  if (p.evidence)
    text += wrap("evidence: " + printable(evidence::sentence(*p.evidence)) + "\n", style.width);
  text += wrap(fmt::format("{} {} ms per step, {} tokens/s, {} of the device's peak FLOP/s\n",
                           time_word(p.time.basis), milliseconds(p.time.step),
                           grouped(static_cast<std::int64_t>(p.time.tokens_per_second)),
                           percent(p.time.mfu)),
               style.width) +
          "\n";
  if (!p.task_phases.empty())
    text += task_phase_grid(p).text(style.color, style.width) +
            wrap(task_phase_note(p), style.width) + "\n";
  const std::string line = sparkline(p.memory.timeline, p.memory.peak_allocated, style);
  if (!line.empty())
    text += std::string("memory over the step (") + (style.utf8 ? "full block" : "#") +
            " = peak)\n" + line + "\n" + phase_line(p.memory.timeline, style) + "\n\n";
  text += category_grid(p).text(style.color, style.width) + "\n" +
          phase_grid(p).text(style.color, style.width);
  if (!p.memory.ranks.empty()) {
    text += "\n" + rank_grid(p).text(style.color, style.width);
    if (p.time.bubble_share)
      text += fmt::format("ranks wait {} of the schedule ({}), a mean over them\n",
                          percent(*p.time.bubble_share), time_word(p.time.basis));
  }
  if (p.budget) {
    const profile::BudgetResult& b = *p.budget;
    text += "\n" + wrap(fmt::format("budget {} GiB: {}\n", gib(b.budget), b.plan), style.width);
    text += wrap(fmt::format("recomputation {} ms, lower bound {} ms (gap {}); least feasible {} "
                             "GiB\nformulation: {}\nsolver: {}\n",
                             milliseconds(b.recompute_seconds), milliseconds(b.lower_bound_seconds),
                             percent(b.gap), gib(b.least_feasible), b.formulation, b.solver),
                 style.width);
  }
  const std::string more = notes(p, style);
  return more.empty() ? text : text + "\n" + more;
}

std::string table(const advise::Sweep& sweep, const Style& style) {
  std::string text =
      bold("Savings, cumulative (framework " + sweep.base.runtime.framework + ")\n", style.color);
  text += savings_grid(sweep).text(style.color, style.width);
  if (const std::string note = not_planned_note(sweep); !note.empty())
    text += wrap(note + "\n", style.width);
  text += "\n";
  text += bold(
      wrap(fmt::format("Ranked by {} throughput: {} configurations, peaks in GiB\n{}\n"
                       "b: micro-batch (x micro-batches per step); max b: largest that fits (+: "
                       "at least{}); *: on the Pareto front; ?: extrapolated\n",
                       time_word(time_basis(sweep)), sweep.configurations, batch_note(sweep),
                       chunk_note(sweep)),
           style.width),
      style.color);
  text += ranking_grid(sweep, style.rows).text(style.color, style.width);
  if (sweep.rows.size() > style.rows) text += more(sweep.rows.size() - style.rows);
  if (const std::string note = unavailable_note(sweep); !note.empty())
    text += wrap(printable(note) + "\n", style.width);
  if (const Grid grid = layout_grid(sweep); !grid.rows().empty())
    text += bold("\nLayouts, the best of each\n", style.color) +
            grid.text(style.color, style.width) +
            wrap(printable(layout_note(sweep)) + "\n", style.width);
  return text + "\n" +
         wrap("Recommendation: " + printable(sweep.recommendation) + "\n" + explain_note + "\n",
              style.width);
}

std::string table(const profile::Diff& d, const Style& style) {
  std::string text =
      origins(d.a_origin + ", peak in " + d.a_peak, d.b_origin + ", peak in " + d.b_peak, style);
  if (!d.fields.empty()) text += field_grid(d.fields).text(style.color, style.width) + "\n";
  text += change_grid("GiB", d.totals, true).text(style.color, style.width) + "\n";
  text +=
      change_grid("at the peak, by category", d.categories, true).text(style.color, style.width) +
      "\n";
  std::vector<profile::Change> modules = changed_modules(d.modules);
  const std::size_t shown = std::min<std::size_t>(modules.size(), 12);
  const std::size_t others = modules.size() - shown;
  modules.resize(shown);
  if (shown > 0)
    text += change_grid("at the peak, by module", modules, true).text(style.color, style.width);
  else
    text += "at the peak, by module: no difference\n";
  if (others > 0) text += fmt::format("  … {} more\n", others);
  text += "\n" + change_grid("peak of each phase", d.phases, true).text(style.color, style.width) +
          "\n";
  text += change_grid("launches", d.launches, false).text(style.color, style.width);
  if (d.a_step_seconds == 0 && d.b_step_seconds == 0) return text;
  text += fmt::format("\nestimated step: {} ms, {} ms", milliseconds(d.a_step_seconds),
                      milliseconds(d.b_step_seconds));
  if (d.a_step_seconds > 0 && d.b_step_seconds != d.a_step_seconds)
    text += fmt::format(" ({:+.1f} %)", 100 * (d.b_step_seconds / d.a_step_seconds - 1));
  return text + "\n";
}

std::string table(const SweepDiff& d, const Style& style) {
  std::string text = origins(d.a_origin, d.b_origin, style);
  if (!d.fields.empty()) text += field_grid(d.fields).text(style.color, style.width) + "\n";
  text += row_change_grid(d, style.rows).text(style.color, style.width);
  if (d.rows.size() > style.rows) text += more(d.rows.size() - style.rows);
  return text + "\n" +
         wrap("A recommends: " + printable(d.a_recommendation) +
                  "\nB recommends: " + printable(d.b_recommendation) + "\n",
              style.width);
}

std::string table(const Explanation& e, const Style& style) {
  const profile::Profile& p = e.profile;
  std::string text = heading(p, style);
  text += wrap(printable(fmt::format("The peak, {} GiB, occurs at op {} ({} of {}, in {}).",
                                     gib(p.memory.peak_allocated), p.memory.peak_step,
                                     p.memory.peak_op, p.memory.peak_module, p.memory.peak_phase)),
               style.width);
  text += "\n\n" + category_grid(p).text(style.color, style.width) + "\n" +
          largest_grid(p).text(style.color, style.width) + "\n";
  for (const std::string& sentence : e.sentences)
    text += wrap("- " + printable(sentence) + "\n", style.width);
  if (!e.modules.kinds.empty())
    text += "\n" + module_grid(e.modules, p.time.basis).text(style.color, style.width) +
            wrap(module_note(e.modules) + "\n", style.width) + "\n";
  return text + notes(p, style);
}

std::string table(const Trace& trace, const Style& style) {
  std::string text = trace_grid(trace).text(style.color, style.width) + "\n";
  std::size_t number = 0;
  for (const std::string& reason : trace_reasons(trace))
    text += wrap(fmt::format("{}: {}\n", ++number, printable(reason)), style.width);
  return text;
}

}  // namespace ac_advisor::reports
