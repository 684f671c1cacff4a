// JSON: exact integers in bytes, keys with their unit.
#include <nlohmann/json.hpp>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::ordered_json;

Json changes(const std::vector<profile::Change>& list) {
  Json out = Json::object();
  for (const profile::Change& c : list)
    out[c.name] = {{"a", c.a}, {"b", c.b}, {"delta", c.delta()}};
  return out;
}

}  // namespace

std::string json(const profile::Profile& profile) { return profile::to_json(profile) + "\n"; }

std::string json(const advise::Sweep& sweep) {
  Json out;
  out["schema"] = "ac-advisor/sweep/1";
  out["model"] = sweep.model.name;
  out["configurations"] = sweep.configurations;
  out["recommendation"] = sweep.recommendation;
  out["savings"] = Json::array();
  for (const advise::Saving& s : sweep.savings)
    out["savings"].push_back({{"technique", s.technique},
                              {"peak_bytes", s.peak_bytes},
                              {"saved_bytes", s.saved_bytes},
                              {"saved_share_of_baseline", s.saved_share},
                              {"step_seconds", s.step_seconds}});
  out["rows"] = Json::array();
  for (const advise::Row& row : sweep.rows) {
    Json j = Json::parse(profile::to_json(row.profile, -1));
    j["label"] = row.label;
    j["fits"] = row.fits;
    if (row.fits)
      j["rank"] = row.rank;
    else
      j["rank"] = nullptr;
    j["pareto"] = row.pareto;
    if (row.largest_batch > 0)
      j["largest_batch"] = row.largest_batch;
    else
      j["largest_batch"] = nullptr;
    j["why"] = row.why;
    out["rows"].push_back(std::move(j));
  }
  return out.dump(2) + "\n";
}

std::string json(const profile::Diff& d) {
  Json out;
  out["schema"] = "ac-advisor/diff/1";
  out["a"] = d.a_origin;
  out["b"] = d.b_origin;
  out["fields"] = Json::array();
  for (const profile::FieldChange& f : d.fields)
    out["fields"].push_back({{"field", f.field}, {"a", f.a}, {"b", f.b}});
  out["totals_bytes"] = changes(d.totals);
  out["at_peak_bytes"] = changes(d.categories);
  out["at_peak_by_module_bytes"] = changes(d.modules);
  out["peak_by_phase_bytes"] = changes(d.phases);
  out["launches"] = changes(d.launches);
  out["dispatches"] = changes(d.dispatches);
  out["step_seconds"] = {{"a", d.a_step_seconds}, {"b", d.b_step_seconds}};
  return out.dump(2) + "\n";
}

}  // namespace ac_advisor::reports
