#include "ac_advisor/gate/baseline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "files/fingerprint.hpp"
#include "json/node.hpp"

namespace ac_advisor::gate {
namespace {

using json::Json;
using json::Node;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;

Json json_of(const std::vector<profile::Field>& fields) {
  Json out = Json::object();
  for (const profile::Field& field : fields)
    std::visit([&](const auto& value) { out[field.name] = value; }, field.value);
  return out;
}

Json json_of(const std::map<std::string, std::string>& texts) {
  Json out = Json::object();
  for (const auto& [name, text] : texts) out[name] = text;
  return out;
}

/// Whole numbers as integers, so that 64 bits survive.
Json json_of(Unit unit, std::int64_t value) {
  if (unit == Unit::bytes || unit == Unit::launches) return value;
  return in_json_unit(unit, value);
}

std::vector<profile::Field> read_fields(const Node& node) {
  std::vector<profile::Field> fields;
  for (const auto& [name, value] : node.members()) {
    const Json& json = value.json();
    profile::Field field{name, false};
    if (json.is_boolean())
      field.value = json.get<bool>();
    else if (json.is_number_integer())
      field.value = value.integer(std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max());
    else if (json.is_number())
      field.value = json.get<double>();
    else
      field.value = value.text();
    fields.push_back(std::move(field));
  }
  return fields;
}

std::map<std::string, std::string> read_texts(const Node& node) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : node.members()) texts[name] = value.text();
  return texts;
}

std::int64_t read_figure_value(const Node& node, Unit unit) {
  if (unit == Unit::bytes || unit == Unit::launches) return node.integer(0, most);
  return from_json_unit(unit, node.number(0.0, unit == Unit::millionths ? 1.0 : 1e9));
}

void read_parts(const Node& root, profile::Profile& parts) {
  const Node categories = root.at("at_peak_bytes");
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < profile::category_count; ++i) {
    names.emplace_back(profile::to_string(static_cast<profile::Category>(i)));
    // Some are later than the first baselines, and few plans have bytes of them.
    const auto bytes = categories.find(std::string(names.back()));
    const bool may_lack = profile::is_optional(static_cast<profile::Category>(i));
    if (bytes || !may_lack)
      parts.memory.at_peak[i] = categories.at(std::string(names.back())).integer(0, most);
  }
  categories.allow_only(names);
  for (const auto& [name, bytes] : root.at("at_peak_by_module_bytes").members())
    parts.memory.at_peak_by_module[name] = bytes.integer(0, most);
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i) {
    const char* phase = profile::phase_names[i];
    parts.kernels.launches[i] = root.at("launches_by_phase").at(phase).integer(0, most);
    parts.time.by_phase[i] = root.at("seconds_by_phase").at(phase).number(0.0, 1e9);
  }
}

/// Of all numbers that are compared. Who edits or merges them by hand makes a baseline of no plan.
std::string checksum_of(const Json& baseline) {
  std::string text;
  for (const char* part : {"figures", "at_peak_bytes", "at_peak_by_module_bytes",
                           "launches_by_phase", "seconds_by_phase"})
    text += baseline.at(part).dump();
  return files::fingerprint(text);
}

/// What was written before there was a checksum has parts that sum to their whole.
void check_sums(const Node& root, const Baseline& b) {
  const auto check = [&](const char* parts, const auto& values, Figure figure) {
    const std::int64_t whole = b.figures[index(figure)];
    std::int64_t sum = 0;
    for (const std::int64_t value : values)
      if (__builtin_add_overflow(sum, value, &sum))
        root.at(parts).fail("sums to more than 64 bits hold; write it with check --update");
    if (sum != 0 && sum != whole)
      root.at("figures")
          .at(row(figure).json)
          .fail(fmt::format(
              "is not the sum of \"{}\", {}: the file was changed by hand; write it with "
              "check --update",
              parts, sum));
  };
  check("launches_by_phase", b.parts.kernels.launches, Figure::launches);
  if (b.fingerprint.source != "simulated") return;
  check("at_peak_bytes", b.parts.memory.at_peak, Figure::peak_allocated);
  std::vector<std::int64_t> modules;
  for (const auto& [name, bytes] : b.parts.memory.at_peak_by_module) modules.push_back(bytes);
  check("at_peak_by_module_bytes", modules, Figure::peak_allocated);
}

/// "blocks.0" to "blocks.15" as one: a change of the number of blocks moves one row.
std::string without_number(const std::string& module) {
  constexpr std::string_view blocks = "blocks.";
  return module.starts_with(blocks) ? "blocks" : module;
}

}  // namespace

Baseline make_baseline(const Case& c, const profile::Profile& p,
                       std::map<std::string, std::string> fields) {
  Baseline b;
  b.case_name = c.name;
  b.fingerprint = {profile::schema, op_table_version(), p.source, p.device_name, "", {}, {}};
  if (c.command || p.source == "simulated")
    b.fingerprint.device_figures =
        simulate::find_device(c.command ? c.command->gpu : p.config.device.gpu).figures;
  if (p.has("model"))
    for (profile::Field& field : profile::model_fields(p.model))
      if (field.name != "name") b.fingerprint.model.push_back(std::move(field));
  if (p.has("config")) b.fingerprint.config = profile::saved_config_fields(p.config);
  if (c.command)
    b.fingerprint.config = {{"command", fmt::format("{}", fmt::join(c.command->words, " "))},
                            {"world", c.command->world},
                            {"rank", c.command->rank}};
  b.written.model = c.model;
  b.written.fields = std::move(fields);
  for (const auto& [name, value] : c.options) b.written.options[name.substr(2)] = value;
  b.figures = figures_of(p);
  b.parts.memory.at_peak = p.memory.at_peak;
  for (const auto& [module, bytes] : p.memory.at_peak_by_module)
    b.parts.memory.at_peak_by_module[without_number(module)] += bytes;
  b.parts.kernels.launches = p.kernels.launches;
  b.parts.time.by_phase = p.time.by_phase;
  return b;
}

std::string to_json(const Baseline& b) {
  Json out;
  out["schema"] = b.schema;
  out["case"] = b.case_name;
  out["figures"] = Json::object();
  for (const FigureRow& row : figure_table())
    out["figures"][row.json] = json_of(row.unit, b.figures[index(row.figure)]);
  out["at_peak_bytes"] = Json::object();
  for (std::size_t i = 0; i < profile::category_count; ++i)
    if (!profile::is_optional(static_cast<profile::Category>(i)) || b.parts.memory.at_peak[i] > 0)
      out["at_peak_bytes"][profile::to_string(static_cast<profile::Category>(i))] =
          b.parts.memory.at_peak[i];
  out["at_peak_by_module_bytes"] = b.parts.memory.at_peak_by_module;
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i) {
    out["launches_by_phase"][profile::phase_names[i]] = b.parts.kernels.launches[i];
    // As exact as the figure itself: nanoseconds.
    out["seconds_by_phase"][profile::phase_names[i]] = in_json_unit(
        Unit::nanoseconds, from_json_unit(Unit::nanoseconds, b.parts.time.by_phase[i]));
  }
  out["checksum"] = checksum_of(out);
  const Fingerprint& f = b.fingerprint;
  out["fingerprint"] = {{"profile_schema", f.profile_schema},
                        {"op_table", f.op_table},
                        {"source", f.source},
                        {"device", f.device}};
  if (!f.device_figures.empty()) out["fingerprint"]["device_figures"] = f.device_figures;
  out["fingerprint"]["model"] = json_of(f.model);
  out["fingerprint"]["config"] = json_of(f.config);
  out["written"] = {{"model", b.written.model},
                    {"fields", json_of(b.written.fields)},
                    {"options", json_of(b.written.options)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Baseline read_baseline(const std::string& text, const std::string& origin) {
  const Json json = json::parse_document(text, origin);
  const Node root(json, origin);
  Baseline b;
  b.schema = root.at("schema").text();
  if (!b.schema.starts_with("ac-advisor/baseline/"))
    root.at("schema").fail("is no baseline's; write it with check --update");
  if (b.schema != baseline_schema) return b;
  root.allow_only({"schema", "case", "figures", "at_peak_bytes", "at_peak_by_module_bytes",
                   "launches_by_phase", "seconds_by_phase", "checksum", "fingerprint", "written"});
  b.case_name = root.at("case").text();
  for (const FigureRow& row : figure_table())
    b.figures[index(row.figure)] = read_figure_value(root.at("figures").at(row.json), row.unit);
  read_parts(root, b.parts);
  const Node f = root.at("fingerprint");
  const auto figures = f.find("device_figures");
  b.fingerprint = {f.at("profile_schema").text(),  f.at("op_table").text(),
                   f.at("source").text(),          f.at("device").text(),
                   figures ? figures->text() : "", read_fields(f.at("model")),
                   read_fields(f.at("config"))};
  // One written when an option was new says its default, which others leave out.
  std::erase_if(b.fingerprint.config, [](const profile::Field& field) {
    const OptionRow* row = find_option_key(field.name);
    return row != nullptr && row->newer && field.value == row->get(StepConfig{});
  });
  const Node written = root.at("written");
  b.written = {written.at("model").text(), read_texts(written.at("fields")),
               read_texts(written.at("options"))};
  const auto checksum = root.find("checksum");
  if (checksum && checksum->text() != checksum_of(json))
    checksum->fail(
        "is not that of the figures: they were changed or merged by hand; write them with check "
        "--update");
  check_sums(root, b);
  return b;
}

}  // namespace ac_advisor::gate
