#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/reports/snapshot.hpp"
#include "ac_advisor/version.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

Json block_json(const snapshot::Analysis& a, const snapshot::LiveBlock& b) {
  Json out{{"bytes", b.size},
           {"requested_bytes", b.requested},
           {"category", profile::to_string(b.category)},
           {"where", b.where},
           {"address", b.address},
           {"stream", b.stream},
           {"born_event", b.born < 0 ? Json() : Json(b.born)},
           {"freed_event", b.freed >= a.events ? Json() : Json(b.freed)},
           {"stack", b.stack}};
  if (!b.metadata.empty()) out["metadata"] = b.metadata;
  return out;
}

Json step_json(const snapshot::StepSummary& s) {
  Json phases = Json::object();
  for (std::size_t p = 0; p < s.peak_by_phase.size(); ++p)
    phases[profile::phase_names[p]] = s.peak_by_phase[p] > 0 ? Json(s.peak_by_phase[p]) : Json();
  return {{"begin_event", s.begin},
          {"end_event", s.end},
          {"complete", s.complete},
          {"peak_allocated_bytes", s.peak_allocated},
          {"peak_reserved_bytes", s.peak_reserved},
          {"begins_with_bytes", s.begins_with},
          {"peak_by_phase", phases},
          {"seconds", s.seconds > 0 ? Json(s.seconds) : Json()}};
}

Json fragmentation_json(const snapshot::Fragmentation& f) {
  Json out{{"peak_reserved_bytes", f.peak_reserved},
           {"allocated_then_bytes", f.allocated_then},
           {"free_then_bytes", f.free_then},
           {"largest_free_bytes", f.largest_free},
           {"replayed_reserved_bytes", or_null(f.replayed_reserved)},
           {"replayed_expandable_bytes", or_null(f.replayed_expandable)}};
  if (!f.not_replayed.empty()) out["not_replayed"] = f.not_replayed;
  out["pinned"] = Json::array();
  for (const snapshot::PinnedSegment& p : f.pinned)
    out["pinned"].push_back({{"address", p.address},
                             {"stream", p.stream},
                             {"bytes", p.size},
                             {"used_bytes", p.used},
                             {"blocks", p.blocks},
                             {"largest_free_bytes", p.largest_free},
                             {"smallest_block_bytes", p.smallest},
                             {"smallest_block_where", p.smallest_where}});
  return out;
}

Json snapshot_json(const snapshot::Analysis& a) {
  constexpr std::size_t most_blocks = 200;
  Json out{{"file", a.origin},
           {"device", a.device},
           {"events", a.events},
           {"seconds", a.seconds > 0 ? Json(a.seconds) : Json()},
           {"allocator_settings", a.allocator_settings},
           {"began_allocated_bytes", a.began_allocated},
           {"began_reserved_bytes", a.began_reserved},
           {"ended_allocated_bytes", a.ended_allocated},
           {"ended_reserved_bytes", a.ended_reserved},
           {"peak_requested_bytes", a.peak_requested},
           {"peak_event", a.peak_event < 0 ? Json() : Json(a.peak_event)}};
  out["devices"] = Json::array();
  for (const snapshot::DeviceSummary& d : a.devices)
    out["devices"].push_back({{"device", d.device},
                              {"events", d.events},
                              {"peak_allocated_bytes", d.peak_allocated},
                              {"ended_reserved_bytes", d.reserved}});
  out["how_steps"] = a.how_steps;
  out["steps"] = Json::array();
  for (const snapshot::StepSummary& s : a.steps) out["steps"].push_back(step_json(s));
  out["by_source_line"] = Json::array();
  for (const snapshot::Site& s : a.sites)
    out["by_source_line"].push_back({{"where", s.where},
                                     {"category", profile::to_string(s.category)},
                                     {"bytes", s.bytes},
                                     {"blocks", s.blocks}});
  out["live_blocks"] = a.live.size();
  out["live"] = Json::array();
  for (std::size_t i = 0; i < a.live.size() && i < most_blocks; ++i)
    out["live"].push_back(block_json(a, a.live[i]));
  out["fragmentation"] = fragmentation_json(a.fragmentation);
  out["out_of_memory"] = Json::array();
  for (const snapshot::OutOfMemory& o : a.out_of_memory)
    out["out_of_memory"].push_back(
        {{"event", o.event},
         {"requested_bytes", o.requested},
         {"device_free_bytes", o.device_free},
         {"allocated_bytes", o.allocated},
         {"reserved_bytes", o.reserved},
         {"largest_free_bytes", o.largest_free},
         {"would_have_fitted_bytes", o.would_have_fitted},
         {"would_have_fitted_expandable_bytes", o.would_have_fitted_expandable},
         {"where", o.where},
         {"stack", o.stack}});
  return out;
}

Json analysis_json(const snapshot::Analysis& a) {
  Json out = Json::parse(profile::to_json(snapshot::to_profile(a)));
  out["snapshot"] = snapshot_json(a);
  return out;
}

Json beside_json(const std::vector<snapshot::Beside>& rows) {
  Json out = Json::object();
  for (const snapshot::Beside& b : rows)
    out[b.name] = {{"planned_bytes", b.planned},
                   {"measured_bytes", b.is_measured ? Json(b.measured) : Json()}};
  return out;
}

Json unmatched_json(const std::vector<snapshot::Unmatched>& list) {
  Json out = Json::array();
  for (const snapshot::Unmatched& u : list)
    out.push_back(
        {{"bytes_each", u.size}, {"count", u.count}, {"category", u.category}, {"what", u.what}});
  return out;
}

Json growth_rows(const std::vector<snapshot::Growth::Row>& list) {
  Json out = Json::array();
  for (const snapshot::Growth::Row& r : list)
    out.push_back({{"where", r.where},
                   {"category", profile::to_string(r.category)},
                   {"a_bytes", r.a},
                   {"b_bytes", r.b},
                   {"a_blocks", r.a_blocks},
                   {"b_blocks", r.b_blocks}});
  return out;
}

/// Names come from files: what is not UTF-8 is replaced, not refused.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json(const snapshot::Analysis& a) { return text_of(analysis_json(a)); }

std::string json(const snapshot::Against& r) {
  Json out = analysis_json(r.analysis);
  out["against"] = {{"plan", r.plan},
                    {"totals", beside_json(r.totals)},
                    {"categories", beside_json(r.categories)},
                    {"phases", beside_json(r.phases)},
                    {"planned_blocks", r.planned_blocks},
                    {"measured_blocks", r.measured_blocks},
                    {"matched_blocks", r.matched},
                    {"matched_bytes", r.matched_bytes},
                    {"matched_category_blocks", r.matched_category},
                    {"only_planned", unmatched_json(r.only_planned)},
                    {"only_measured", unmatched_json(r.only_measured)},
                    {"findings", r.findings}};
  return text_of(out);
}

std::string json(const snapshot::Growth& g) {
  return text_of({{"schema", "ac-advisor/snapshot-diff/1"},
                  {"tool_version", version},
                  {"a", g.a_origin},
                  {"b", g.b_origin},
                  {"device", g.device},
                  {"allocated_bytes", {{"a", g.a_allocated}, {"b", g.b_allocated}}},
                  {"reserved_bytes", {{"a", g.a_reserved}, {"b", g.b_reserved}}},
                  {"by_source_line", growth_rows(g.rows)},
                  {"by_size", growth_rows(g.sizes)}});
}

}  // namespace ac_advisor::reports
