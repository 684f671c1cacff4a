#include "reports/gate_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ac_advisor::reports {
namespace {

using gate::Check;
using gate::Outcome;
using gate::Weight;

/// A case's own verdict has no figure; what it is stands there instead.
std::string figure_cell(const gate::Verdict& v) {
  if (v.check != Check::whole_case) return gate::row(v.figure).name;
  std::string words = gate::to_string(v.outcome);
  std::replace(words.begin(), words.end(), '_', ' ');
  return "(" + words + ")";
}

}  // namespace

const char* verdict_word(const gate::Verdict& v) {
  switch (gate::weight(v)) {
    case Weight::failure:
      return "FAILS";
    case Weight::warning:
      return "warns";
    case Weight::news:
      return v.outcome == Outcome::waived ? "waived" : "better";
    case Weight::fine:
      return v.outcome == Outcome::off ? "off" : "ok";
  }
  return "";
}

Grid verdict_grid(const gate::Report& report) {
  Grid grid({"case", "figure", "baseline", "now", "limit", "verdict"});
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts) {
      const auto cell = [&](const std::optional<std::int64_t>& value, bool wanted) {
        return value && wanted ? gate::shown(gate::row(v.figure).unit, *value) : std::string("-");
      };
      const bool figure = v.check != Check::whole_case;
      grid.row({result.name, figure_cell(v), cell(v.baseline, v.check == Check::baseline),
                cell(v.now, figure), cell(v.limit, figure), verdict_word(v)});
    }
  return grid;
}

std::string headline(const gate::Report& report) {
  std::size_t checks = 0;
  for (const gate::CaseResult& result : report.cases) checks += result.verdicts.size();
  const std::size_t failures = gate::count(report, Weight::failure),
                    warnings = gate::count(report, Weight::warning);
  std::string text =
      fmt::format("{} case{}, {} check{}: ", report.cases.size(),
                  report.cases.size() == 1 ? "" : "s", checks, checks == 1 ? "" : "s");
  text += failures == 0 ? "passed" : fmt::format("{} failed", failures);
  if (warnings > 0) text += fmt::format(", {} warning{}", warnings, warnings == 1 ? "" : "s");
  return text;
}

std::string check_name(const gate::Verdict& v) {
  if (v.check != Check::whole_case)
    return fmt::format("{} ({})", gate::row(v.figure).name, gate::to_string(v.check));
  return gate::to_string(v.outcome);
}

std::string sentence(const gate::CaseResult& result, const gate::Verdict& v) {
  return result.name + ": " + v.message;
}

}  // namespace ac_advisor::reports
