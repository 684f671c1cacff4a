// What `json(const advise::Sweep&)` wrote, read back.
#include <fmt/format.h>

#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/reports/sweep_diff.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {
namespace {

StepConfig read_config(const Json& json, const std::string& place) {
  if (!json.is_object()) throw UserError(place + ": \"config\" must be an object");
  StepConfig config;
  for (const auto& [name, value] : json.items()) {
    profile::FieldValue field = false;
    if (value.is_boolean())
      field = value.get<bool>();
    else if (value.is_number_integer())
      field = value.get<std::int64_t>();
    else if (value.is_number())
      field = value.get<double>();
    else if (value.is_string())
      field = value.get<std::string>();
    try {
      profile::set_config_field(config, {name, field});
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: \"config.{}\": {}", place, name, error.what()));
    }
  }
  return config;
}

advise::Row read_row(const Node& node) {
  advise::Row row;
  row.profile = profile::from_json(node.json.dump(), node.place);
  row.label = node.get<std::string>("label");
  row.fits = node.get<bool>("fits");
  row.rank = node.get_or<int>("rank", 0);
  row.pareto = node.get<bool>("pareto");
  row.largest_batch = node.get_or<std::int64_t>("largest_batch", 0);
  row.largest_batch_exact = node.get_newer<bool>("largest_batch_exact", true);
  row.largest_batch_loss = node.get_newer<std::string>("largest_batch_loss", "");
  row.unavailable = node.get_newer<std::string>("unavailable", "");
  row.why = node.get<std::string>("why");
  return row;
}

}  // namespace

advise::Sweep sweep_from_json(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw UserError(origin + ": not JSON, or cut short; give what advise --format json wrote");
  const Node root{json, origin};
  const std::string schema = root.get<std::string>("schema");
  if (schema != sweep_schema)
    throw UserError(
        fmt::format("{}: \"schema\" is {}, this version reads {}", origin, schema, sweep_schema));
  advise::Sweep sweep;
  sweep.model.name = root.get<std::string>("model");
  sweep.base = read_config(root.at("config"), origin);
  sweep.varies_global_batch = root.get_newer<bool>("varies_global_batch", true);  // as it once was
  sweep.configurations = root.get<std::size_t>("configurations");
  if (json.contains("not_simulated")) {  // newer than the schema
    const Node left{root.at("not_simulated"), origin + ": \"not_simulated\""};
    sweep.too_large = left.get<std::size_t>("too_large");
    sweep.too_heavy = left.get<std::size_t>("too_heavy");
    sweep.too_slow = left.get_newer<std::size_t>("too_slow", 0);
  }
  sweep.recommendation = root.get<std::string>("recommendation");
  for (const Json& item : root.list("savings")) {
    const Node node{item, fmt::format("{}: \"savings[{}]\"", origin, sweep.savings.size())};
    sweep.savings.push_back(
        {node.get<std::string>("technique"), read_config(node.at("config"), node.place),
         node.get<std::int64_t>("peak_bytes"), node.get<std::int64_t>("saved_bytes"),
         node.get<double>("saved_share_of_baseline"), node.get<double>("step_seconds"),
         node.get_newer<std::string>("unavailable", "")});
  }
  if (json.contains("not_planned"))  // newer than the schema
    for (const Json& item : root.list("not_planned")) {
      const Node node{item, origin + ": \"not_planned\""};
      sweep.not_planned.push_back(
          {node.get<std::string>("technique"), node.get<std::string>("why")});
    }
  for (const Json& item : root.list("rows"))
    sweep.rows.push_back(
        read_row({item, fmt::format("{}: \"rows[{}]\"", origin, sweep.rows.size())}));
  if (!sweep.rows.empty()) sweep.model = sweep.rows.front().profile.model;
  sweep.recommended = !sweep.rows.empty() && sweep.rows.front().rank == 1 ? 0 : sweep.rows.size();
  return sweep;
}

}  // namespace ac_advisor::reports
