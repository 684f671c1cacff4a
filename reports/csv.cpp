// CSV: one row a configuration or figure, exact integers in bytes.
#include <fmt/format.h>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/grid.hpp"

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
                                    "pareto"};

std::vector<std::string> cells(const profile::Profile& p) {
  const StepConfig& c = p.config;
  return {p.model.name,
          ac_option(c),
          to_option(c.scope),
          loss_option(c),
          to_option(c.kernels),
          shard_option(c),
          std::to_string(c.world),
          std::to_string(c.batch),
          std::to_string(c.seq),
          c.gpu,
          std::to_string(p.memory.peak_allocated),
          std::to_string(p.memory.peak_reserved),
          std::to_string(p.memory.peak_excluding_workspace),
          p.memory.peak_phase,
          fmt::format("{:.9g}", p.time.step),
          fmt::format("{:.9g}", p.time.tokens_per_second),
          p.fit.fits ? "true" : "false"};
}

}  // namespace

std::string csv(const profile::Profile& p) {
  Grid grid(head);
  grid.row(cells(p));
  return grid.csv();
}

std::string csv(const advise::Sweep& sweep) {
  Grid grid(head);
  for (const advise::Row& row : sweep.rows) {
    std::vector<std::string> line = cells(row.profile);
    line.push_back(row.fits ? std::to_string(row.rank) : "");
    line.push_back(row.pareto ? "true" : "false");
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
  for (const profile::FieldChange& f : d.fields) grid.row({"field", f.field, f.a, f.b, ""});
  return grid.csv();
}

}  // namespace ac_advisor::reports
