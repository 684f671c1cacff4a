// Predicted beside measured: of one configuration by category and phase, of several a line each.
#include "ac_advisor/reports/measurement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/grids.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::json;

std::string signed_bytes(std::int64_t n) {
  return n == 0 ? "=" : (n > 0 ? "+" : "-") + grouped(n > 0 ? n : -n);
}

void add(Grid& grid, const std::string& name, std::int64_t predicted, std::int64_t measured) {
  if (predicted == 0 && measured == 0) return;
  grid.row({name, grouped(predicted), grouped(measured), signed_bytes(measured - predicted)});
}

Grid totals(const Measurement& m) {
  const profile::Memory &p = m.predicted.memory, &q = m.measured.memory;
  Grid grid({"bytes", "predicted", "measured", "difference"});
  add(grid, "peak allocated", p.peak_allocated, q.peak_allocated);
  add(grid, "without workspaces", p.peak_excluding_workspace, q.peak_excluding_workspace);
  if (!m.measured.absent.contains("memory.peak_reserved_bytes"))
    add(grid, "peak reserved", p.peak_reserved, q.peak_reserved);
  add(grid, "on the host", p.host_pinned, q.host_pinned);
  add(grid, "first step", p.first_step_peak, q.first_step_peak);
  add(grid, "between steps", p.resident, q.resident);
  return grid;
}

/// Of several ranks, those that are alike together.
Grid rank_peaks(const Measurement& m) {
  Grid grid({"peak allocated of", "ranks", "predicted", "measured", "difference"});
  for (const profile::RankMemory& rank : m.measured.memory.ranks) {
    std::int64_t predicted = m.predicted.memory.peak_allocated;
    for (const profile::RankMemory& stage : m.predicted.memory.ranks)
      if (stage.pp_rank == rank.pp_rank && stage.cp_rank == rank.cp_rank)
        predicted = stage.peak_allocated;
    const Layout& layout = m.measured.config.layout;
    grid.row({layout.pp > 1   ? "stage " + fmt::format("{}", fmt::join(rank.stages, ", "))
              : layout.cp > 1 ? fmt::format("part {} of sequences", rank.cp_rank)
                              : "all ranks",
              grouped(rank.count), grouped(predicted), grouped(rank.peak_allocated),
              signed_bytes(rank.peak_allocated - predicted)});
  }
  return grid;
}

Grid categories(const Measurement& m) {
  Grid grid({"at the peak", "predicted", "measured", "difference"});
  for (std::size_t i = 0; i < profile::category_count; ++i)
    add(grid, profile::to_string(static_cast<profile::Category>(i)), m.predicted.memory.at_peak[i],
        m.measured.memory.at_peak[i]);
  return grid;
}

Grid phases(const Measurement& m) {
  Grid grid({"peak of phase", "predicted", "measured", "difference",
             time_unit(m.predicted.time.basis, "ms"), "ms", "launches"});
  const auto& absent = m.measured.absent;
  const bool timed = !absent.contains("time") && !absent.contains("time.by_phase_seconds"),
             counted = !absent.contains("kernels.launches");
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i) {
    const std::int64_t p = m.predicted.memory.peak_by_phase[i],
                       q = m.measured.memory.peak_by_phase[i];
    if (p == 0 && q == 0) continue;
    grid.row({profile::phase_names[i], grouped(p), grouped(q), signed_bytes(q - p),
              milliseconds(m.predicted.time.by_phase[i]),
              timed ? milliseconds(m.measured.time.by_phase[i]) : "-",
              counted ? grouped(m.measured.kernels.launches[i]) : "-"});
  }
  return grid;
}

bool timed(const profile::Profile& p) {
  return !p.absent.contains("time") && !p.absent.contains("time.step_seconds");
}

/// "-" where it was not timed.
std::string step_milliseconds(const profile::Profile& p) {
  return timed(p) ? milliseconds(p.time.step) : "-";
}

/// "-" where the field is absent.
std::string figure(const profile::Profile& p, const char* field, const std::string& text) {
  return p.absent.contains(std::string("instruments.") + field) ? "-" : text;
}

Grid instruments_grid(const profile::Profile& p) {
  const profile::Instruments& all = *p.instruments;
  Grid grid({"on the device", "read GiB", "written GiB", "% of peak", "gaps > 50 us", "ms in gaps",
             "ms idle"});
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i) {
    if (all.dram_read_bytes[i] == 0 && all.dram_write_bytes[i] == 0 && all.idle_seconds[i] == 0)
      continue;
    const auto gib_of = [](double bytes) { return fmt::format("{:.3f}", bytes / (1 << 30)); };
    grid.row({profile::phase_names[i], figure(p, "dram_read_bytes", gib_of(all.dram_read_bytes[i])),
              figure(p, "dram_write_bytes", gib_of(all.dram_write_bytes[i])),
              figure(p, "dram_percent_of_peak", fmt::format("{:.0f}", all.dram_percent_of_peak[i])),
              figure(p, "gaps_over_50_us", fmt::format("{:.3g}", all.long_gaps[i])),
              figure(p, "gap_seconds", milliseconds(all.long_gap_seconds[i])),
              figure(p, "idle_seconds", milliseconds(all.idle_seconds[i]))});
  }
  return grid;
}

std::string instrument_runs(const profile::Instruments& all) {
  std::string text;
  for (const profile::Instruments::Run& run : all.runs) {
    const auto overhead = all.overhead_percent(run);
    text += fmt::format("{}{} {} ms{}", text.empty() ? "step by run: " : ", ",
                        printable(run.instrument), milliseconds(run.step_seconds),
                        overhead ? fmt::format(" ({:+.1f} %)", *overhead) : "");
  }
  return text;
}

std::string traced_step(const profile::Instruments& all) {
  if (!all.whole) return "";
  const profile::TracedStep& w = *all.whole;
  return fmt::format(
      "traced step: {:.0f} kernels in {:.0f} launches, the device idle for {} ms, of which {} in "
      "{:.3g} gaps over 50 us",
      w.kernels, w.launches, milliseconds(w.idle_seconds), milliseconds(w.long_gap_seconds),
      w.long_gaps);
}

std::string verdict(const Measurement& m) {
  const std::int64_t p = m.predicted.memory.peak_allocated, q = m.measured.memory.peak_allocated;
  if (p == q) return "the measured peak is the predicted one, to the byte";
  const double off = 100.0 * static_cast<double>(p - q) / static_cast<double>(q);
  const bool workspace =
      m.predicted.memory.peak_excluding_workspace == m.measured.memory.peak_excluding_workspace;
  return fmt::format("the prediction is off by {} bytes ({:+.4f} %){}", grouped(std::abs(p - q)),
                     off, workspace ? ", all of it workspace" : "");
}

std::string numerics(const profile::Profile& p) {
  if (!p.numerics) {
    const auto why = p.absent.find("numerics");
    return "gradients: " + (why == p.absent.end() ? std::string("not compared") : why->second);
  }
  const profile::Numerics& n = *p.numerics;
  std::string text;
  if (!n.losses.empty())
    text = fmt::format("loss {:.4f} → {:.4f} in {} steps", n.losses.front(), n.losses.back(),
                       n.losses.size());
  if (!n.gradient_digest.empty())
    text += fmt::format("\ngradients {}: {}{}", n.gradient_digest, n.parity,
                        n.reference.empty() ? "" : " (against " + n.reference + ")");
  return text;
}

std::string parity(const profile::Profile& p) {
  return p.numerics && !p.numerics->parity.empty() ? p.numerics->parity : "-";
}

std::string digest(const profile::Profile& p) {
  return p.numerics && !p.numerics->gradient_digest.empty()
             ? p.numerics->gradient_digest.substr(0, 6)
             : "-";
}

Grid rows_grid(const Measurements& m) {
  Grid grid({"configuration", "predicted B", "measured B", "diff", "ms", "digest", "gradients"});
  for (const Measurement& row : m.rows)
    grid.row(
        {row.label, grouped(row.predicted.memory.peak_allocated),
         grouped(row.measured.memory.peak_allocated),
         signed_bytes(row.measured.memory.peak_allocated - row.predicted.memory.peak_allocated),
         step_milliseconds(row.measured), digest(row.measured), parity(row.measured)});
  return grid;
}

Grid savings_grid(const Measurements& m) {
  Grid grid({"technique", "predicted B", "saved", "measured B", "saved", "ms/step"});
  for (const Measurement& row : m.savings) {
    const auto saved = [&](auto peak) {
      const auto base = static_cast<double>(peak(m.savings.front()));
      return &row == &m.savings.front() ? std::string()
                                        : percent(static_cast<double>(peak(row)) / base - 1.0);
    };
    const auto predicted = [](const Measurement& x) { return x.predicted.memory.peak_allocated; };
    const auto measured = [](const Measurement& x) { return x.measured.memory.peak_allocated; };
    grid.row({row.label, grouped(predicted(row)), saved(predicted), grouped(measured(row)),
              saved(measured), step_milliseconds(row.measured)});
  }
  return grid;
}

std::string summary(const Measurements& m) {
  std::size_t exact = 0, exact_but_workspaces = 0;
  double worst = 0;
  std::set<std::string> ops;  // whose scratch is the difference
  for (const Measurement& row : m.rows) {
    const profile::Memory &p = row.predicted.memory, &q = row.measured.memory;
    const auto measured = static_cast<double>(q.peak_allocated);
    const bool same = p.peak_allocated == q.peak_allocated,
               but_workspaces = p.peak_excluding_workspace == q.peak_excluding_workspace;
    exact += same ? 1 : 0;
    exact_but_workspaces += but_workspaces ? 1 : 0;
    if (!same && but_workspaces) ops.insert(q.peak_op);
    worst = std::max(worst, std::abs(static_cast<double>(p.peak_allocated) - measured) / measured);
  }
  std::string text =
      fmt::format("{} of {} predicted peaks are the measured ones to the byte; worst {:.4f} %",
                  exact, m.rows.size(), 100.0 * worst);
  if (!ops.empty())
    text += fmt::format(
        "; without workspaces {} of {}: at the peak {} takes scratch within LibTorch that is not "
        "planned",
        exact_but_workspaces, m.rows.size(), fmt::join(ops, ", "));
  return text;
}

}  // namespace

std::string table(const Measurement& m, const Style& style) {
  std::string text = bold(wrap(title(m.measured), style.width), style.color) + "\n";
  const bool emulated = m.measured.source == "emulated";
  text += bold((emulated ? "on an emulated " : "measured on ") + printable(m.measured.device_name) +
                   ": " + verdict(m) + "\n\n",
               style.color);
  text += totals(m).text(style.color, style.width) + "\n";
  if (!m.measured.memory.ranks.empty()) text += rank_peaks(m).text(style.color, style.width) + "\n";
  text += categories(m).text(style.color, style.width) + "\n" +
          phases(m).text(style.color, style.width) + "\n";
  if (timed(m.measured))
    text += fmt::format("step {} ms measured, {} tokens/s\n", milliseconds(m.measured.time.step),
                        grouped(static_cast<std::int64_t>(m.measured.time.tokens_per_second)));
  if (m.measured.instruments) {
    const std::string runs = instrument_runs(*m.measured.instruments);
    text += "\n" + instruments_grid(m.measured).text(style.color, style.width) +
            (runs.empty() ? "" : wrap(runs, style.width) + "\n");
    const std::string traced = traced_step(*m.measured.instruments);
    text += (traced.empty() ? "" : wrap(traced, style.width) + "\n") + "\n";
  }
  text += wrap(printable(numerics(m.measured)), style.width) + "\n";
  for (const auto& [field, reason] : m.measured.absent)
    text += wrap(fmt::format("not measured: {}: {}", field, printable(reason)), style.width) + "\n";
  for (const std::string& warning : m.measured.warnings)
    text += wrap("warning: " + printable(warning), style.width) + "\n";
  for (const std::string& note : m.measured.assumptions)
    text += wrap("note: " + printable(note), style.width) + "\n";
  return text;
}

std::string markdown(const Measurement& m) {
  std::string text = "**" + verdict(m) + "**\n\n" + totals(m).markdown() + "\n";
  if (!m.measured.memory.ranks.empty()) text += rank_peaks(m).markdown() + "\n";
  text += categories(m).markdown() + "\n" + phases(m).markdown() + "\n";
  if (m.measured.instruments)
    text += instruments_grid(m.measured).markdown() + "\n" +
            escape_markdown(instrument_runs(*m.measured.instruments)) + "\n\n" +
            escape_markdown(traced_step(*m.measured.instruments)) + "\n\n";
  return text + escape_markdown(numerics(m.measured)) + "\n";
}

std::string csv(const Measurement& m) { return csv(Measurements{{m}, {}, {}}); }

std::string json(const Measurement& m) {
  Json out = Json::parse(profile::to_json(m.measured, -1));
  out["predicted"] = Json::parse(profile::to_json(m.predicted, -1));
  return out.dump(2) + "\n";
}

std::string table(const Measurements& m, const Style& style) {
  std::string text;
  // Savings are against the first row, which one part alone has.
  if (!m.savings.empty() && m.part.of == 1)
    text += bold("Savings, cumulative: predicted and measured\n", style.color) +
            savings_grid(m).text(style.color, style.width) + "\n";
  text += rows_grid(m).text(style.color, style.width) + "\n" + wrap(summary(m), style.width) + "\n";
  if (m.part.of > 1)
    text += fmt::format("part {} of {}: ac-advisor report puts them together\n", m.part.index,
                        m.part.of);
  const bool emulated = !m.rows.empty() && m.rows.front().measured.source == "emulated";
  return text + (emulated
                     ? "on an emulated device, which computes nothing: no times, no gradients\n"
                     : "gradients: against one unsharded rank, eager kernels, ce, no "
                       "checkpointing\n");
}

std::string markdown(const Measurements& m) {
  return (m.savings.empty() || m.part.of > 1 ? "" : savings_grid(m).markdown() + "\n") +
         rows_grid(m).markdown() + "\n" + summary(m) + "\n";
}

std::string csv(const Measurements& m) {
  Grid grid({"configuration", "predicted_peak_bytes", "measured_peak_bytes",
             "predicted_excluding_workspace_bytes", "measured_excluding_workspace_bytes",
             "step_seconds", "gradient_digest", "gradients"});
  for (const Measurement& row : m.rows)
    grid.row({row.label, std::to_string(row.predicted.memory.peak_allocated),
              std::to_string(row.measured.memory.peak_allocated),
              std::to_string(row.predicted.memory.peak_excluding_workspace),
              std::to_string(row.measured.memory.peak_excluding_workspace),
              timed(row.measured) ? fmt::format("{}", row.measured.time.step) : "",
              row.measured.numerics ? row.measured.numerics->gradient_digest : "",
              parity(row.measured)});
  return grid.csv();
}

std::string json(const Measurements& m) {
  const auto list = [](const std::vector<Measurement>& rows) {
    Json out = Json::array();
    for (const Measurement& row : rows)
      out.push_back({{"label", row.label}, {"measured", Json::parse(json(row))}});
    return out;
  };
  Json out = {{"schema", "ac-advisor/measurements/1"},
              {"rows", list(m.rows)},
              {"savings", list(m.savings)}};
  if (m.part.of > 1) out["part"] = {{"index", m.part.index}, {"of", m.part.of}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
