#include "ac_advisor/gate/gate_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "json/node.hpp"
#include "limits.hpp"
#include "line_of.hpp"
#include "model/in_quotes.hpp"
#include "model/nearest.hpp"

namespace ac_advisor::gate {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::size_t most_cases = 10000;
constexpr std::size_t longest_name = 100;

/// A name is a file name on every system, and a word in every report.
void check_name(const Node& node, const std::string& name) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name.size() > longest_name || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), allowed))
    node.fail(fmt::format(
        "must be 1 to {} letters, digits, \"-\", \"_\" and \".\", not \".\" first", longest_name));
}

/// "grad-accum": 4 and "keep-last-block": true become what the command line has.
OptionList read_options(const Node& node) {
  OptionList options;
  for (const auto& [name, value] : node.members()) {
    const json::Json& written = value.json();
    std::string text;
    if (written.is_string()) {
      text = value.text();
    } else if (written.is_number_integer()) {
      text = std::to_string(value.integer(std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::max()));
    } else if (written.is_number()) {
      text = fmt::format("{}", written.get<double>());
    } else if (!written.is_boolean() || !written.get<bool>()) {
      value.fail("must be the option's value, or true for an option without one");
    }
    options.emplace_back("--" + name, text);
  }
  return options;
}

/// `over` after `base`, without what it replaces.
OptionList merged(const OptionList& base, const OptionList& over) {
  OptionList options;
  for (const auto& option : base) {
    const bool replaced = std::any_of(over.begin(), over.end(), [&](const auto& other) {
      return other.first == option.first || other.first == "--no-" + option.first.substr(2) ||
             option.first == "--no-" + other.first.substr(2);
    });
    if (!replaced) options.push_back(option);
  }
  options.insert(options.end(), over.begin(), over.end());
  return options;
}

void read_source(const Node& node, Case& c) {
  const auto source = node.find("source");
  const auto profile = node.find("profile");
  const std::string word = source ? source->text() : "simulated";
  if (word == "emulated" && !c.command)
    source->fail("goes with \"command\", the program that is run");
  if (word != "simulated" && word != "measured" && word != "emulated")
    source->fail("must be \"simulated\", \"measured\" or \"emulated\"");
  if (c.command && source && word != "emulated")
    source->fail("with a \"command\" must be \"emulated\"");
  if (word == "measured") {
    c.profile = node.at("profile").text();
    if (c.profile.empty()) profile->fail("must be the file that measure --format json wrote");
  } else if (profile) {
    profile->fail("goes with \"source\": \"measured\" only");
  }
}

/// {"command": ["python", "train.py"], "gpu": "h100-80gb", "world": 8, "rank": 0}
void read_command(const Node& node, Case& c) {
  const auto words = node.find("command");
  for (const char* key : {"gpu", "world", "rank"})
    if (const auto field = node.find(key); field && !words)
      field->fail(std::string("goes with \"command\" only; give --") + key + " among the options");
  if (!words) return;
  for (const char* key : {"model", "as", "options", "profile"})
    if (const auto field = node.find(key))
      field->fail("does not go with \"command\": the program says what it runs");
  Command& command = c.command.emplace();
  for (const Node& word : words->list()) command.words.push_back(word.text());
  if (command.words.empty() || command.words.front().empty())
    words->fail("must be the program and its arguments, [\"python\", \"train.py\"]");
  if (const auto gpu = node.find("gpu")) {
    command.gpu = gpu->text();
    if (!simulate::find_device(command.gpu).cuda) gpu->fail("is no GPU, which is what is emulated");
  }
  if (const auto world = node.find("world")) command.world = world->integer(1, most_ranks);
  if (const auto rank = node.find("rank")) command.rank = rank->integer(0, command.world - 1);
}

/// {"training": "configs/sft.yaml", "tool": "axolotl", "ignore": ["neftune_noise_alpha"]}
void read_training(const Node& node, Case& c) {
  const auto training = node.find("training");
  for (const char* key : {"tool", "ignore"})
    if (const auto field = node.find(key); field && !training)
      field->fail("goes with \"training\" only");
  if (!training) return;
  if (c.measured() || c.command)
    training->fail("is planned: it goes with neither \"profile\" nor \"command\"");
  c.training = training->text();
  if (c.training.empty()) training->fail("must be a training file, such as configs/sft.yaml");
  if (const auto tool = node.find("tool")) c.tool = tool->text();
  if (const auto keys = node.find("ignore"))
    for (const Node& key : keys->list()) c.ignore.push_back(key.text());
}

/// Times are of no emulated device.
void refuse_times(const Node& node, const WrittenLimits& limits, bool own) {
  for (const Figure figure : {Figure::recompute_share, Figure::step_seconds})
    if (limits[index(figure)])
      throw UserError(fmt::format(
          "{}: \"{}\" is limited{}, which no emulated run has: kernels do not run there",
          node.where(), row(figure).name, own ? "" : " by the defaults"));
}

/// What every case has that does not say otherwise.
struct Defaults {
  OptionList options;
  WrittenLimits limits;
  Level level = Level::error;
  evidence::Grade require = evidence::Grade::extrapolated;
};

evidence::Grade read_grade(const Node& node) {
  return static_cast<evidence::Grade>(node.one_of(evidence::grade_names));
}

/// "level": "off" of a case is above those of its limits.
void settle_limits(const WrittenLimits& written, Level level, Case& c) {
  for (std::size_t i = 0; i < figure_count; ++i) {
    if (!written[i]) continue;
    c.limits[i] = written[i]->limit;
    if (level == Level::off || !written[i]->has_level) c.limits[i]->level = level;
  }
}

Case read_case(const Node& node, const Defaults& defaults) {
  node.allow_only({"name", "model", "as", "training", "tool", "ignore", "options", "source",
                   "profile", "command", "gpu", "world", "rank", "limits", "level", "require"});
  Case c;
  c.name = node.at("name").text();
  check_name(node.at("name"), c.name);
  read_command(node, c);
  read_source(node, c);
  if (const auto model = node.find("model")) {
    c.model = model->text();
    if (c.model.empty()) model->fail("must be a config.json, its folder, or a sample's name");
  } else if (!c.measured() && !c.command && !node.find("training")) {
    static_cast<void>(node.at("model"));
  }
  read_training(node, c);
  if (const auto as = node.find("as")) c.as = as->text();
  if (!c.command) c.options = defaults.options;
  if (const auto own = node.find("options"))
    c.options = merged(defaults.options, read_options(*own));
  c.require = defaults.require;
  if (const auto own = node.find("require")) {
    c.require = read_grade(*own);
    if (c.command || c.measured()) own->fail("goes with a plan; this step is run");
  }
  const auto level = node.find("level");
  WrittenLimits limits = defaults.limits;
  if (const auto own = node.find("limits")) read_limits(*own, limits);
  if (c.command) refuse_times(node, limits, node.find("limits").has_value());
  settle_limits(limits, level ? read_level(*level) : defaults.level, c);
  if (std::none_of(limits.begin(), limits.end(), [](const auto& limit) { return limit; }))
    throw UserError(
        fmt::format("{}: no limit, so it could not fail; give \"limits\", such as "
                    "{{\"peak_allocated\": {{\"budget\": \"40GiB\"}}}}",
                    node.where()));
  return c;
}

Waiver read_waiver(const Node& node, const std::set<std::string>& names) {
  node.allow_only({"case", "figure", "reason", "expires"});
  Waiver waiver;
  waiver.case_name = node.at("case").text();
  if (names.count(waiver.case_name) == 0) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string_view near = model::nearest(waiver.case_name, known);
    node.at("case").fail("is no case" +
                         (near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?"));
  }
  waiver.figure = read_figure(node.at("figure"), node.at("figure").text());
  waiver.reason = node.at("reason").text();
  if (waiver.reason.find_first_not_of(" \t\n") == std::string::npos)
    node.at("reason").fail("must say why");
  waiver.expires = parse_date(node.at("expires").text(), node.at("expires").where());
  return waiver;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void read_cases(const Node& root, GateFile& file) {
  Defaults defaults;
  if (const auto node = root.find("defaults")) {
    node->allow_only({"options", "limits", "level", "require"});
    if (const auto own = node->find("options")) defaults.options = read_options(*own);
    if (const auto own = node->find("limits")) read_limits(*own, defaults.limits);
    if (const auto own = node->find("level")) defaults.level = read_level(*own);
    if (const auto own = node->find("require")) defaults.require = read_grade(*own);
  }
  const Node list = root.at("cases");
  if (list.json().is_array() && list.json().empty()) list.fail("is empty; a gate needs a case");
  if (list.json().size() > most_cases)
    list.fail(fmt::format("has {} entries; at most {} are read", list.json().size(), most_cases));
  const std::map<std::string, int> lines = lines_of_names(file.text);
  std::map<std::string, std::string> seen;
  for (const Node& node : list.list()) {
    Case c = read_case(node, defaults);
    const auto [other, fresh] = seen.emplace(lower(c.name), c.name);
    if (!fresh)
      node.at("name").fail(other->second == c.name
                               ? "is the name of two cases; give each its own"
                               : "differs from another case's name by case only, and some file "
                                 "systems cannot tell their baselines apart");
    const auto line = lines.find(c.name);
    c.line = line == lines.end() ? 1 : line->second;
    file.cases.push_back(std::move(c));
  }
}

}  // namespace

const char* to_string(Level level) {
  static constexpr std::array<const char*, 3> names{"off", "warn", "error"};
  return names[static_cast<std::size_t>(level)];
}

GateFile parse_gate_file(const std::string& text, const std::string& origin) {
  const json::Json document = json::parse_document(text, origin);
  const Node root(document, origin);
  root.allow_only({"schema", "baselines", "defaults", "cases", "waivers"});
  if (const auto schema = root.find("schema"); schema && schema->text() != gate_schema)
    schema->fail(fmt::format("must be \"{}\", which this version reads", gate_schema));
  GateFile file;
  file.origin = origin;
  file.text = text;
  if (const auto folder = root.find("baselines")) file.baselines = folder->text();
  if (file.baselines.empty()) root.at("baselines").fail("must be a folder, such as \"baselines\"");
  read_cases(root, file);
  std::set<std::string> names;
  for (const Case& c : file.cases) names.insert(c.name);
  if (const auto waivers = root.find("waivers")) {
    std::set<std::pair<std::string, Figure>> seen;
    for (const Node& node : waivers->list()) {
      file.waivers.push_back(read_waiver(node, names));
      if (!seen.emplace(file.waivers.back().case_name, file.waivers.back().figure).second)
        node.at("figure").fail("is waived twice for this case; keep one");
    }
  }
  return file;
}

std::string resolve_path(const GateFile& file, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(file.origin).parent_path();
  return (folder / path).lexically_normal().string();
}

std::string baseline_path(const GateFile& file, const std::string& case_name) {
  return resolve_path(file,
                      (std::filesystem::path(file.baselines) / (case_name + ".json")).string());
}

}  // namespace ac_advisor::gate
