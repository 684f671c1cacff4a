// CSV: one row a configuration or figure, exact integers in bytes.
#include <fmt/format.h>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/emulated.hpp"
#include "reports/grid.hpp"
#include "reports/without_model.hpp"

namespace ac_advisor::reports {
namespace {

const std::vector<std::string> head{"model",
                                    "ac",
                                    "ac_scope",
                                    "loss",
                                    "kernels",
                                    "shard",
                                    "world",
                                    "batch",
                                    "seq",
                                    "gpu",
                                    "peak_allocated_bytes",
                                    "peak_reserved_bytes",
                                    "peak_excluding_workspace_bytes",
                                    "peak_phase",
                                    "step_seconds_estimate",
                                    "tokens_per_second_estimate",
                                    "fits",
                                    "rank",
                                    "pareto",
                                    "grad_accum",
                                    "unavailable"};

std::vector<std::string> cells(const profile::Profile& p) {
  const StepConfig& c = p.config;
  return {
      p.model.name,
      ac_option(c),
      to_option(c.memory.scope),
      loss_option(c),
      to_option(c.memory.kernels),
      shard_option(c),
      std::to_string(c.layout.world),
      std::to_string(c.run.batch),
      std::to_string(c.run.seq),
      c.device.gpu,
      std::to_string(p.memory.peak_allocated),
      p.absent.contains("memory.peak_reserved_bytes") ? "" : std::to_string(p.memory.peak_reserved),
      std::to_string(p.memory.peak_excluding_workspace),
      p.memory.peak_phase,
      fmt::format("{:.9g}", p.time.step),
      fmt::format("{:.9g}", p.time.tokens_per_second),
      p.absent.contains("fit") ? ""
      : p.fit.fits             ? "true"
                               : "false"};
}

}  // namespace

std::string csv(const profile::Profile& p) {
  if (p.emulation) return emulated_csv(p);
  if (!p.has("model")) return csv_without_model(p);
  Grid grid({head.begin(), head.end() - 4});  // rank and what follows are of a sweep's rows
  grid.row(cells(p));
  return grid.csv();
}

std::string csv(const advise::Sweep& sweep) {
  Grid grid(head);
  for (const advise::Row& row : sweep.rows) {
    std::vector<std::string> line = cells(row.profile);
    line.push_back(row.rank > 0 ? std::to_string(row.rank) : "");
    line.push_back(row.pareto ? "true" : "false");
    line.push_back(std::to_string(row.profile.config.run.grad_accum));
    line.push_back(row.unavailable);
    grid.row(line);
  }
  return grid.csv();
}

std::string csv(const profile::Diff& d) {
  Grid grid({"kind", "name", "a", "b", "b_minus_a"});
  const auto add = [&](const char* kind, const std::vector<profile::Change>& changes) {
    for (const profile::Change& c : changes)
      grid.row({kind, c.name, std::to_string(c.a), std::to_string(c.b), std::to_string(c.delta())});
  };
  add("total_bytes", d.totals);
  add("category_bytes", d.categories);
  add("module_bytes", d.modules);
  add("phase_bytes", d.phases);
  add("launches", d.launches);
  add("dispatches", d.dispatches);
  for (const profile::FieldChange& f : d.fields) grid.row({"field", f.field, f.a, f.b, ""});
  return grid.csv();
}

std::string csv(const SweepDiff& d) {
  Grid grid({"configuration", "a_peak_allocated_bytes", "b_peak_allocated_bytes",
             "a_step_seconds_estimate", "b_step_seconds_estimate", "a_rank", "b_rank"});
  const auto peak = [](const std::optional<RowChange::Side>& s) {
    return s ? std::to_string(s->peak_bytes) : "";
  };
  const auto time = [](const std::optional<RowChange::Side>& s) {
    return s ? fmt::format("{:.9g}", s->step_seconds) : "";
  };
  const auto rank = [](const std::optional<RowChange::Side>& s) {
    return s && s->rank > 0 ? std::to_string(s->rank) : std::string();
  };
  for (const RowChange& r : d.rows)
    grid.row({r.label, peak(r.a), peak(r.b), time(r.a), time(r.b), rank(r.a), rank(r.b)});
  return grid.csv();
}

std::string csv(const Explanation& e) {
  Grid grid({"module", "category", "op", "shape", "dtype", "bytes"});
  for (const profile::LiveTensor& t : e.profile.memory.largest)
    grid.row({t.module, to_string(t.category), t.op, t.shape, t.dtype, std::to_string(t.bytes)});
  return grid.csv();
}

std::string csv(const Trace& trace) {
  Grid grid({"op", "module", "decision", "bytes", "microseconds_estimate", "blocks", "reason"});
  for (const advise::Decision& d : trace)
    grid.row({d.op, d.module, d.decision, std::to_string(d.bytes),
              fmt::format("{:.9g}", d.microseconds), std::to_string(d.count), d.reason});
  return grid.csv();
}

}  // namespace ac_advisor::reports
