#include "cli/training.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ac_advisor/advise/training_model.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/training.hpp"
#include "cli/command_table.hpp"
#include "cli/output.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::cli {
namespace {

nlohmann::ordered_json as_json(const intake::Training& t) {
  nlohmann::ordered_json json = {
      {"tool", t.tool}, {"version", t.version}, {"file", t.path}, {"model", t.model}};
  json["mapping"] = nlohmann::ordered_json::array();
  for (const intake::Mapping& m : t.mapping)
    json["mapping"].push_back(
        {{"key", m.key},
         {"value", m.value},
         {"line", m.line > 0 ? nlohmann::ordered_json(m.line) : nlohmann::ordered_json()},
         {"options", m.options},
         {"source", m.source}});
  json["no_effect"] = t.no_effect;
  json["unknown"] = t.unknown;
  json["assumptions"] = t.assumptions;
  return json;
}

}  // namespace

Arguments with_training(Arguments a) {
  const CommandRow* command = find_command(a.command);
  if (command == nullptr || command->operands.metavar != "MODEL") return a;
  const bool file =
      !a.positional.empty() && (intake::is_training_file(a.positional[0]) || !a.tool.empty());
  if (!file) {
    for (const auto& [given, option] : {std::pair{a.mapping, "--mapping"},
                                        {!a.ignore.empty(), "--ignore"},
                                        {!a.model.empty(), "--model"}})
      if (given)
        throw UserError(fmt::format(
            "{} is of a training file; MODEL is none (a name that ends in .yaml or .toml)",
            option));
    return a;
  }
  a.training = intake::read_training({a.positional[0], a.tool, a.options, a.ignore});
  if (a.mapping) return a;
  a.positional[0] = a.model.empty() ? advise::training_model(*a.training, a.as) : a.model;
  OptionList options = a.training->options;
  options.insert(options.end(), a.options.begin(), a.options.end());
  a.options = std::move(options);
  const auto tell = [&](const char* kind, const std::string& text) {
    std::fprintf(stderr, "ac-advisor: %s: %s\n", kind,
                 reports::printable(a.training->path + ": " + text).c_str());
  };
  for (const std::string& unknown : a.training->unknown)
    tell("warning", "not a key of " + a.training->tool + ": " + unknown);
  for (const std::string& assumption : a.training->assumptions) tell("note", assumption);
  return a;
}

Result tell_training(const Arguments& a, Result result) {
  if (!a.training || a.mapping || result.text.empty()) return result;
  if (a.format == "json" && result.text.starts_with("{")) {
    auto json = nlohmann::ordered_json::parse(result.text);
    json["training"] = as_json(*a.training);
    result.text = json.dump(2) + "\n";
  } else if (a.format == "table" && a.command == "plan") {
    result.text += "\n" + mapping_of(a);
  }
  return result;
}

namespace {

const intake::Training& training_of(const Arguments& a) {
  if (!a.training)
    throw UserError(
        "explain --mapping: MODEL is no training file (a name that ends in .yaml or .toml)");
  return *a.training;
}

}  // namespace

std::string mapping_json(const Arguments& a) { return as_json(training_of(a)).dump(2) + "\n"; }

std::string mapping_of(const Arguments& a) {
  return reports::table(training_of(a), terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
