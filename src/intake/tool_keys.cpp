// data/tools/*.json, each read once.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "embedded/embedded.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

ToolKeys read_tool(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  ToolKeys keys{.name = json.at("tool"), .version = json.at("version")};
  for (const auto& [key, row] : json.at("defaults").items())
    keys.defaults[key] = {row.at("value"), row.at("source")};
  for (const auto& [key, row] : json.at("unplanned").items()) {
    keys.unplanned[key] = row.at("why");
    keys.unplanned_defaults[key] = row.at("value");
  }
  for (const auto& key : json.at("no_effect")) keys.no_effect.insert(key.get<std::string>());
  for (const auto& section : json.value("open", nlohmann::json::array()))
    keys.open.push_back(section.get<std::string>() + ".");
  for (const auto& [name, set] : {std::pair{"flags", &keys.flags}, {"lists", &keys.lists}})
    for (const auto& key : json.value(name, nlohmann::json::array()))
      set->insert(key.get<std::string>());
  return keys;
}

}  // namespace

const ToolKeys& tool_keys(std::string_view name) {
  static const std::vector<ToolKeys> all = [] {
    std::vector<ToolKeys> tools;
    for (const embedded::File& file : embedded::files())
      if (file.path.starts_with("tools/")) tools.push_back(read_tool(file.text));
    return tools;
  }();
  for (const ToolKeys& keys : all)
    if (keys.name == name) return keys;
  throw std::logic_error(fmt::format("data/tools/{}.json is not embedded", name));
}

}  // namespace ac_advisor::intake
