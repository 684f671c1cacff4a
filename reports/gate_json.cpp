// The gate's report for machines: exact integers in bytes, keys with their unit.
#include <nlohmann/json.hpp>

#include "ac_advisor/reports/reports.hpp"
#include "reports/gate_rows.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::ordered_json;

Json amount(gate::Unit unit, const std::optional<std::int64_t>& value) {
  if (!value) return nullptr;
  if (unit == gate::Unit::bytes || unit == gate::Unit::launches) return *value;
  return gate::in_json_unit(unit, *value);
}

Json change(const std::optional<profile::Change>& c) {
  if (!c) return nullptr;
  return {{"name", c->name}, {"baseline", c->a}, {"now", c->b}, {"delta", c->delta()}};
}

Json cause(const gate::Cause& c) {
  Json fields = Json::array();
  for (const profile::FieldChange& f : c.fields)
    fields.push_back({{"field", f.field}, {"baseline", f.a}, {"now", f.b}});
  return {
      {"fields", std::move(fields)}, {"part", change(c.category)}, {"module", change(c.module)}};
}

Json verdict(const gate::Verdict& v) {
  Json out;
  out["check"] = gate::to_string(v.check);
  if (v.check == gate::Check::whole_case)
    out["figure"] = nullptr;
  else
    out["figure"] = gate::row(v.figure).json;
  out["outcome"] = gate::to_string(v.outcome);
  out["level"] = gate::to_string(v.level);
  out["fails"] = gate::weight(v) == gate::Weight::failure;
  const gate::Unit unit = gate::row(v.figure).unit;
  out["now"] = amount(unit, v.now);
  out["baseline"] = amount(unit, v.baseline);
  out["limit"] = amount(unit, v.limit);
  out["cause"] = cause(v.cause);
  out["message"] = v.message;
  out["file"] = v.place.file;
  out["line"] = v.place.line;
  return out;
}

}  // namespace

std::string json(const gate::Report& report) {
  Json out;
  out["schema"] = "ac-advisor/check/1";
  out["config"] = report.origin;
  out["exit_code"] = gate::exit_code(report);
  out["failures"] = gate::count(report, gate::Weight::failure);
  out["warnings"] = gate::count(report, gate::Weight::warning);
  out["cases"] = Json::array();
  for (const gate::CaseResult& result : report.cases) {
    Json c;
    c["name"] = result.name;
    c["figures"] = nullptr;
    if (result.figures) {
      c["figures"] = Json::object();
      for (const gate::FigureRow& of : gate::figure_table())
        c["figures"][of.json] = amount(of.unit, (*result.figures)[gate::index(of.figure)]);
    }
    c["verdicts"] = Json::array();
    for (const gate::Verdict& v : result.verdicts) c["verdicts"].push_back(verdict(v));
    out["cases"].push_back(std::move(c));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
