// Any JSON that this program writes, read back by its schema.
#include <utility>

#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/page.hpp"
#include "reports/check_saved.hpp"

namespace ac_advisor::reports {
namespace {

std::vector<profile::Change> read_changes(const Node& root, const char* key) {
  const Node node = root.child(key);
  if (!node.json.is_object()) throw UserError(node.place + " must be an object");
  std::vector<profile::Change> list;
  for (const auto& [name, item] : node.json.items()) {
    const Node change{item, fmt::format("{}: \"{}\"", node.place, name)};
    list.push_back({name, check_count(change.get<std::int64_t>("a"), change.place),
                    check_count(change.get<std::int64_t>("b"), change.place)});
  }
  return list;
}

std::vector<profile::FieldChange> read_fields(const Node& root) {
  std::vector<profile::FieldChange> list;
  for (const Json& item : root.list("fields")) {
    const Node node{item, fmt::format("{}: \"fields[{}]\"", root.place, list.size())};
    list.push_back(
        {node.get<std::string>("field"), node.get<std::string>("a"), node.get<std::string>("b")});
  }
  return list;
}

profile::Diff read_diff(const Node& root) {
  profile::Diff d;
  d.a_origin = root.get<std::string>("a");
  d.b_origin = root.get<std::string>("b");
  d.fields = read_fields(root);
  d.totals = read_changes(root, "totals_bytes");
  d.categories = read_changes(root, "at_peak_bytes");
  d.modules = read_changes(root, "at_peak_by_module_bytes");
  d.phases = read_changes(root, "peak_by_phase_bytes");
  d.launches = read_changes(root, "launches");
  d.dispatches = read_changes(root, "dispatches");
  const Node step = root.child("step_seconds");
  d.a_step_seconds = check_figure(step.get<double>("a"), step.place);
  d.b_step_seconds = check_figure(step.get<double>("b"), step.place);
  return d;
}

std::optional<RowChange::Side> read_side(const Node& row, const char* key) {
  if (row.at(key).is_null()) return std::nullopt;
  const Node side = row.child(key);
  const std::int64_t rank = check_count(side.get_or<std::int64_t>("rank", 0), side.place);
  return RowChange::Side{
      check_count(side.get<std::int64_t>("peak_allocated_bytes"), side.place),
      check_figure(side.get<double>("step_seconds"), side.place),
      static_cast<int>(std::min<std::int64_t>(rank, std::numeric_limits<int>::max()))};
}

SweepDiff read_sweep_diff(const Node& root) {
  SweepDiff d;
  d.a_origin = root.get<std::string>("a");
  d.b_origin = root.get<std::string>("b");
  d.fields = read_fields(root);
  for (const Json& item : root.list("rows")) {
    const Node row{item, fmt::format("{}: \"rows[{}]\"", root.place, d.rows.size())};
    d.rows.push_back({row.get<std::string>("label"), read_side(row, "a"), read_side(row, "b")});
  }
  const Node recommendation = root.child("recommendation");
  d.a_recommendation = recommendation.get<std::string>("a");
  d.b_recommendation = recommendation.get<std::string>("b");
  return d;
}

Trace read_trace(const Node& root) {
  Trace trace;
  for (const Json& item : root.list("decisions")) {
    const Node node{item, fmt::format("{}: \"decisions[{}]\"", root.place, trace.size())};
    const std::int64_t blocks = check_count(node.get<std::int64_t>("blocks"), node.place);
    trace.push_back(
        {node.get<std::string>("op"), node.get<std::string>("module"),
         node.get<std::string>("decision"), node.get<std::string>("reason"),
         check_count(node.get<std::int64_t>("bytes"), node.place),
         check_figure(node.get<double>("microseconds"), node.place),
         static_cast<int>(std::min<std::int64_t>(blocks, std::numeric_limits<int>::max()))});
  }
  return trace;
}

/// Savings may be negative: a kind may hold more than it saves.
std::int64_t check_saving(std::int64_t bytes, const std::string& place) {
  check_count(std::abs(std::max(bytes, -std::numeric_limits<std::int64_t>::max())), place);
  return bytes;
}

advise::ModuleCosts read_modules(const Node& root) {
  advise::ModuleCosts costs;
  costs.kept_elsewhere_bytes =
      check_count(root.get<std::int64_t>("kept_elsewhere_bytes"), root.place);
  for (const Json& item : root.list("kinds")) {
    const Node node{item, fmt::format("{}: \"kinds[{}]\"", root.place, costs.kinds.size())};
    costs.kinds.push_back({node.get<std::string>("kind"),
                           check_count(node.get<std::int64_t>("kept_bytes"), node.place),
                           check_saving(node.get<std::int64_t>("saved_bytes"), node.place),
                           check_figure(node.get<double>("recompute_seconds"), node.place),
                           check_count(node.get<std::int64_t>("peak_allocated_bytes"), node.place),
                           check_saving(node.get<std::int64_t>("peak_saved_bytes"), node.place)});
  }
  return costs;
}

advise::Sweep read_sweep(const Node& root, const std::string& text) {
  for (std::size_t i = 0; i < root.list("rows").size(); ++i) {
    const Node row{root.list("rows")[i], fmt::format("{}: \"rows[{}]\"", root.place, i)};
    check_model(row.child("model"));
  }
  advise::Sweep sweep = sweep_from_json(text, root.place);
  check_config(sweep.base, root.place + ": \"config\"");
  for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
    const std::string place = fmt::format("{}: \"rows[{}]\"", root.place, i);
    check_profile(sweep.rows[i].profile, place);
    check_count(sweep.rows[i].largest_batch, place + ": \"largest_batch\"");
    check_count(sweep.rows[i].rank, place + ": \"rank\"");
  }
  for (const advise::Saving& row : sweep.savings) {
    const std::string place = root.place + ": \"savings\"";
    check_config(row.config, place);
    check_count(row.peak_bytes, place);
    check_saving(row.saved_bytes, place);
    check_figure(row.saved_share, place);
    check_figure(row.step_seconds, place);
  }
  return sweep;
}

}  // namespace

Document read_document(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw UserError(origin +
                    ": not JSON, or cut short; give what plan, advise or compare --format json "
                    "wrote");
  const Node root{json, origin};
  const auto schema = root.get<std::string>("schema");
  if (schema == sweep_schema) return {origin, read_sweep(root, text)};
  if (schema == "ac-advisor/diff/1") return {origin, read_diff(root)};
  if (schema == "ac-advisor/sweep-diff/1") return {origin, read_sweep_diff(root)};
  if (schema == "ac-advisor/trace/1") return {origin, read_trace(root)};
  if (schema == trace::summary_schema) return {origin, summary_from_json(text, origin)};
  if (schema == trace::ranks_schema) return {origin, ranks_from_json(text, origin)};
  if (schema == diagnosis_schema) return {origin, diagnosis_from_json(text, origin)};
  if (schema == largest_schema) return {origin, largest_from_json(text, origin)};
  if (schema != profile::schema && schema != profile::schema_2)
    throw UserError(fmt::format(
        "{}: \"schema\" is {}; this version reads {}, {}, {}, "
        "ac-advisor/diff/1, ac-advisor/sweep-diff/1, ac-advisor/trace/1, {}, {}, {} and {}",
        origin, schema.substr(0, 60), profile::schema, profile::schema_2, sweep_schema,
        trace::summary_schema, trace::ranks_schema, diagnosis_schema, largest_schema));
  const bool without_model = schema == profile::schema_2 && root.at("model").is_null();
  if (!without_model) check_model(root.child("model"));
  profile::Profile profile = profile::from_json(text, origin);
  check_profile(profile, origin);
  if (!json.contains("explanation")) return {origin, std::move(profile)};
  Explanation explanation{std::move(profile), {}, {}};
  for (const Json& sentence : root.list("explanation")) {
    if (!sentence.is_string()) throw UserError(origin + ": \"explanation\" must hold sentences");
    explanation.sentences.push_back(sentence.get<std::string>());
  }
  if (json.contains("modules")) explanation.modules = read_modules(root.child("modules"));
  return {origin, std::move(explanation)};
}

}  // namespace ac_advisor::reports
