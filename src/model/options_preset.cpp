#include "options_preset.hpp"

#include <nlohmann/json.hpp>

#include "ac_advisor/model/option_table.hpp"
#include "embedded/embedded.hpp"
#include "options_parse.hpp"

namespace ac_advisor::options {
namespace {

constexpr std::string_view folder = "frameworks/", ending = ".json";

std::string_view name_of(std::string_view path) {
  if (!path.starts_with(folder) || !path.ends_with(ending)) return {};
  return path.substr(folder.size(), path.size() - folder.size() - ending.size());
}

OptionList read_preset(std::string_view text) {
  OptionList preset;
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const OptionRow& row : option_table()) {
    const auto member = json.find(row.key);
    if (member == json.end() || !row.on_command_line()) continue;
    const nlohmann::json& value = member->at("value");
    if (value.is_string())
      preset.emplace_back(row.name, value.get<std::string>());
    else if (value.is_boolean() && (value.get<bool>() || !row.off.empty()))
      preset.emplace_back(value.get<bool>() ? row.name : row.off, "");
  }
  return preset;
}

}  // namespace

std::vector<std::string_view> framework_names() {
  std::vector<std::string_view> names;
  for (const embedded::File& file : embedded::files())
    if (const std::string_view name = name_of(file.path); !name.empty()) names.push_back(name);
  return names;
}

std::vector<AboutFramework> frameworks() {
  std::vector<AboutFramework> all;
  for (const embedded::File& file : embedded::files()) {
    const std::string_view name = name_of(file.path);
    if (name.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(file.text);
    all.push_back(
        {name, json.at("title").get<std::string>(), json.at("version").get<std::string>()});
  }
  return all;
}

const OptionList& framework_preset(const std::string& name) {
  // A sweep resolves hundreds of configurations: each file is read once.
  static const std::vector<std::pair<std::string_view, OptionList>> presets = [] {
    std::vector<std::pair<std::string_view, OptionList>> all;
    for (const embedded::File& file : embedded::files())
      if (const std::string_view framework = name_of(file.path); !framework.empty())
        all.emplace_back(framework, read_preset(file.text));
    return all;
  }();
  for (const auto& [framework, preset] : presets)
    if (framework == name) return preset;
  refuse_choice({"--framework", name}, framework_names());
}

}  // namespace ac_advisor::options
