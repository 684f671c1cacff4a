#include "options_preset.hpp"

#include <nlohmann/json.hpp>

#include "embedded/embedded.hpp"
#include "options_parse.hpp"

namespace ac_advisor::options {
namespace {

constexpr std::string_view folder = "frameworks/", ending = ".json";

/// A key of the file and its option; `off` is the option that stands for `false`, if there is one.
struct Key {
  const char* key;
  const char* option;
  const char* off = nullptr;
};
constexpr Key keys[] = {{"kernels", "--kernels"},
                        {"ac", "--ac"},
                        {"ac_scope", "--ac-scope"},
                        {"loss", "--loss"},
                        {"hold_output", "--hold-output", "--no-hold-output"},
                        {"param_dtype", "--param-dtype"},
                        {"compute_dtype", "--compute-dtype"},
                        {"reduce_dtype", "--reduce-dtype"},
                        {"optimizer", "--optimizer"},
                        {"keep_last_block", "--keep-last-block"},
                        {"attn", "--attn"},
                        {"shard", "--shard"},
                        {"fsdp_unit", "--fsdp-unit"}};

std::string_view name_of(std::string_view path) {
  if (!path.starts_with(folder) || !path.ends_with(ending)) return {};
  return path.substr(folder.size(), path.size() - folder.size() - ending.size());
}

}  // namespace

std::vector<std::string_view> framework_names() {
  std::vector<std::string_view> names;
  for (const embedded::File& file : embedded::files())
    if (const std::string_view name = name_of(file.path); !name.empty()) names.push_back(name);
  return names;
}

OptionList framework_preset(const std::string& name) {
  OptionList preset;
  for (const embedded::File& file : embedded::files()) {
    if (name.empty() || name_of(file.path) != name) continue;
    const nlohmann::json json = nlohmann::json::parse(file.text);
    for (const Key& key : keys) {
      const nlohmann::json& value = json.at(key.key).at("value");
      if (value.is_string()) {
        preset.emplace_back(key.option, value.get<std::string>());
      } else if (value.is_boolean()) {
        const char* option = value.get<bool>() ? key.option : key.off;
        if (option != nullptr) preset.emplace_back(option, "");
      }
    }
    return preset;
  }
  refuse_choice({"--framework", name}, framework_names());
}

}  // namespace ac_advisor::options
