// Bencher Metric Format: bencher.dev/docs/reference/bencher-metric-format. Every figure of every
// case that was planned or measured, limited or not: Bencher draws them over time.
#include <nlohmann/json.hpp>

#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

std::string bencher(const gate::Report& report) {
  using Json = nlohmann::ordered_json;
  Json out = Json::object();
  for (const gate::CaseResult& result : report.cases) {
    if (!result.figures) continue;
    for (const gate::FigureRow& of : gate::figure_table())
      out[result.name][of.measure] = {
          {"value", gate::in_json_unit(of.unit, (*result.figures)[gate::index(of.figure)])}};
  }
  return out.dump(2) + "\n";
}

}  // namespace ac_advisor::reports
