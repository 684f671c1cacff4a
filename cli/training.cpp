#include "cli/training.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "ac_advisor/advise/training_model.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/training.hpp"
#include "cli/command_table.hpp"
#include "cli/output.hpp"
#include "model/found_config.hpp"
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

/// Where MODEL stands among a command's operands; none: it has no such.
std::optional<std::size_t> place_of_model(const CommandRow& command, const Arguments& a) {
  if (command.operands.metavar == "MODEL" || a.other) return 0;
  if (command.name == "oom") return 1;  // behind the log
  return std::nullopt;
}

/// A file's bytes are whatever they are: what is not UTF-8 is replaced.
std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Arguments with_training(Arguments a) {
  const CommandRow* command = find_command(a.command);
  const auto place = command != nullptr ? place_of_model(*command, a) : std::nullopt;
  if (!place) return a;
  const bool file = a.positional.size() > *place &&
                    (intake::is_training_file(a.positional[*place]) || !a.tool.empty());
  if (!file) {
    for (const auto& [given, option] : {std::pair{a.mapping, "--mapping"},
                                        {!a.tool.empty(), "--tool"},
                                        {!a.ignore.empty(), "--ignore"},
                                        {!a.model.empty(), "--model"}})
      if (given)
        throw UserError(fmt::format(
            "{} is of a training file; MODEL is none (a name that ends in .yaml, .toml or .sh)",
            option));
    return a;
  }
  a.training = intake::read_training({a.positional[*place], a.tool, a.options, a.ignore, a.model});
  if (a.mapping) return a;
  a.positional[*place] = a.model.empty() ? advise::training_model(*a.training) : a.model;
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
    result.text = text_of(json);
  } else if (a.format == "table" && a.command == "plan") {
    result.text += "\n" + mapping_of(a);
  }
  return result;
}

std::string mapping_of(const Arguments& a) {
  if (!a.training)
    throw UserError(
        "explain --mapping: MODEL is no training file (a name that ends in .yaml, .toml or .sh)");
  if (a.format == "json") return text_of(as_json(*a.training));
  if (a.format != "table")
    throw UserError("explain --mapping --format " + a.format + ": it writes table or json");
  return reports::table(*a.training, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
