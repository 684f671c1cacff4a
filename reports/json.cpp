// JSON: exact integers in bytes, keys with their unit.
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {
namespace {

Json changes(const std::vector<profile::Change>& list) {
  Json out = Json::object();
  for (const profile::Change& c : list)
    out[c.name] = {{"a", c.a}, {"b", c.b}, {"delta", c.delta()}};
  return out;
}

Json fields(const std::vector<profile::FieldChange>& list) {
  Json out = Json::array();
  for (const profile::FieldChange& f : list)
    out.push_back({{"field", f.field}, {"a", f.a}, {"b", f.b}});
  return out;
}

Json config_json(const StepConfig& config) {
  Json out = Json::object();
  for (const profile::Field& field : profile::saved_config_fields(config))
    std::visit([&](const auto& value) { out[field.name] = value; }, field.value);
  return out;
}

/// File and model names may not be UTF-8: what is not is replaced, not refused.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json(const profile::Profile& profile) { return profile::to_json(profile) + "\n"; }

std::string json(const advise::Sweep& sweep) {
  Json out;
  out["schema"] = sweep_schema;
  out["model"] = sweep.model.name;
  out["config"] = config_json(sweep.base);
  out["varies_global_batch"] = sweep.varies_global_batch;
  out["configurations"] = sweep.configurations;
  if (sweep.too_large + sweep.too_heavy + sweep.too_slow > 0)
    out["not_simulated"] = {{"too_large", sweep.too_large},
                            {"too_heavy", sweep.too_heavy},
                            {"too_slow", sweep.too_slow}};
  out["recommendation"] = sweep.recommendation;
  out["savings"] = Json::array();
  for (const advise::Saving& s : sweep.savings)
    out["savings"].push_back({{"technique", s.technique},
                              {"peak_bytes", s.peak_bytes},
                              {"saved_bytes", s.saved_bytes},
                              {"saved_share_of_baseline", s.saved_share},
                              {"step_seconds", s.step_seconds},
                              {"unavailable", text_or_null(s.unavailable)},
                              {"config", config_json(s.config)}});
  out["not_planned"] = Json::array();
  for (const advise::NotPlanned& row : sweep.not_planned)
    out["not_planned"].push_back({{"technique", row.technique}, {"why", row.why}});
  out["rows"] = Json::array();
  for (const advise::Row& row : sweep.rows) {
    Json j = Json::parse(profile::to_json(row.profile, -1));
    j["label"] = row.label;
    j["fits"] = row.fits;
    if (row.rank > 0)
      j["rank"] = row.rank;
    else
      j["rank"] = nullptr;
    j["unavailable"] = text_or_null(row.unavailable);
    j["pareto"] = row.pareto;
    if (row.largest_batch > 0)
      j["largest_batch"] = row.largest_batch;
    else
      j["largest_batch"] = nullptr;
    j["largest_batch_exact"] = row.largest_batch_exact;
    j["largest_batch_loss"] = text_or_null(row.largest_batch_loss);
    j["why"] = row.why;
    out["rows"].push_back(std::move(j));
  }
  return text_of(out);
}

std::string json(const profile::Diff& d) {
  Json out;
  out["schema"] = "ac-advisor/diff/1";
  out["a"] = d.a_origin;
  out["b"] = d.b_origin;
  out["fields"] = fields(d.fields);
  out["totals_bytes"] = changes(d.totals);
  out["at_peak_bytes"] = changes(d.categories);
  out["at_peak_by_module_bytes"] = changes(d.modules);
  out["peak_by_phase_bytes"] = changes(d.phases);
  out["launches"] = changes(d.launches);
  out["dispatches"] = changes(d.dispatches);
  out["step_seconds"] = {{"a", d.a_step_seconds}, {"b", d.b_step_seconds}};
  return text_of(out);
}

std::string json(const SweepDiff& d) {
  Json out;
  out["schema"] = "ac-advisor/sweep-diff/1";
  out["a"] = d.a_origin;
  out["b"] = d.b_origin;
  out["fields"] = fields(d.fields);
  out["rows"] = Json::array();
  const auto side = [](const std::optional<RowChange::Side>& s) {
    if (!s) return Json();
    return Json{{"peak_allocated_bytes", s->peak_bytes},
                {"step_seconds", s->step_seconds},
                {"rank", s->rank > 0 ? Json(s->rank) : Json()}};
  };
  for (const RowChange& r : d.rows)
    out["rows"].push_back({{"label", r.label}, {"a", side(r.a)}, {"b", side(r.b)}});
  out["recommendation"] = {{"a", d.a_recommendation}, {"b", d.b_recommendation}};
  return text_of(out);
}

std::string json(const Explanation& e) {
  Json out = Json::parse(profile::to_json(e.profile, -1));
  out["explanation"] = e.sentences;
  if (e.modules.kinds.empty()) return text_of(out);
  out["modules"]["kept_elsewhere_bytes"] = e.modules.kept_elsewhere_bytes;
  for (const advise::ModuleCost& c : e.modules.kinds)
    out["modules"]["kinds"].push_back({{"kind", c.kind},
                                       {"kept_bytes", c.kept_bytes},
                                       {"saved_bytes", c.saved_bytes},
                                       {"recompute_seconds", c.recompute_seconds},
                                       {"peak_allocated_bytes", c.peak_bytes},
                                       {"peak_saved_bytes", c.peak_saved_bytes}});
  return text_of(out);
}

std::string json(const Trace& trace) {
  Json out;
  out["schema"] = "ac-advisor/trace/1";
  out["decisions"] = Json::array();
  for (const advise::Decision& d : trace)
    out["decisions"].push_back({{"op", d.op},
                                {"module", d.module},
                                {"decision", d.decision},
                                {"bytes", d.bytes},
                                {"microseconds", d.microseconds},
                                {"estimate", true},
                                {"blocks", d.count},
                                {"reason", d.reason}});
  return text_of(out);
}

}  // namespace ac_advisor::reports
