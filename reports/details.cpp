// Which configurations of a sweep the page shows whole.
#include <algorithm>

#include "ac_advisor/reports/page.hpp"

namespace ac_advisor::reports {

Detail detail(const model::ModelSpec& model, const StepConfig& config, const std::string& label) {
  return {label, advise::plan(model, config), advise::category_timeline(model, config)};
}

std::vector<Detail> details(const advise::Sweep& sweep, std::size_t most) {
  std::vector<Detail> list;
  const auto add = [&](const StepConfig& config, const std::string& label) {
    const bool there = std::any_of(list.begin(), list.end(),
                                   [&](const Detail& d) { return d.profile.config == config; });
    if (!there && list.size() < most) list.push_back(detail(sweep.model, config, label));
  };
  const auto add_rows = [&](const auto& wanted) {
    for (const advise::Row& row : sweep.rows)
      if (wanted(row)) add(row.profile.config, row.label);
  };
  add_rows([](const advise::Row& row) { return row.rank == 1; });
  for (const advise::Saving& saving : sweep.savings) add(saving.config, saving.technique);
  add_rows([](const advise::Row& row) { return row.pareto && row.fits; });
  add_rows([](const advise::Row& row) { return row.fits; });
  add_rows([](const advise::Row& row) { return row.pareto; });
  return list;
}

}  // namespace ac_advisor::reports
