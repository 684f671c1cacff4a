#include "reports/json_schema.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <stdexcept>

#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

bool is_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == (value.is_null() ? "null" : std::string(value.type_name()));
}

/// Checks values against the schemas of one or more files (JSON Schema, draft 2020-12).
class Checker {
 public:
  explicit Checker(std::map<std::string, json> files) : files_(std::move(files)) {}

  void check(const json& value, const json& schema, const std::string& file,
             const std::string& place) {
    for (const auto& [keyword, rule] : schema.items())
      apply(keyword, rule, value, schema, file, place);
  }
  [[nodiscard]] const json& file(const std::string& name) const { return files_.at(name); }
  std::vector<std::string> errors;

 private:
  void fail(const std::string& place, const std::string& what) {
    errors.push_back(place + ": " + what);
  }

  void follow(const std::string& reference, const json& value, const std::string& file,
              const std::string& place) {
    const std::size_t hash = reference.find('#');
    const std::string named = reference.substr(0, hash), target = named.empty() ? file : named;
    check(value, files_.at(target).at(json::json_pointer(reference.substr(hash + 1))), target,
          place);
  }

  void apply(const std::string& keyword, const json& rule, const json& value, const json& schema,
             const std::string& file, const std::string& place) {
    static const std::vector<std::string> words{"$schema", "$id", "$defs", "title", "description"};
    if (std::find(words.begin(), words.end(), keyword) != words.end()) return;
    if (keyword == "$ref") return follow(rule, value, file, place);
    if (keyword == "type") {
      const json types = rule.is_array() ? rule : json::array({rule});
      if (std::none_of(types.begin(), types.end(),
                       [&](const json& t) { return is_type(value, t); }))
        fail(place, "is not of type " + rule.dump());
    } else if (keyword == "const") {
      if (value != rule) fail(place, "is not " + rule.dump());
    } else if (keyword == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end())
        fail(place, "is none of " + rule.dump());
    } else if (keyword == "minimum") {
      if (value.is_number() && value < rule) fail(place, "is below " + rule.dump());
    } else if (keyword == "maximum") {
      if (value.is_number() && value > rule) fail(place, "is above " + rule.dump());
    } else if (keyword == "pattern") {
      if (value.is_string() &&
          !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        fail(place, "does not match " + rule.dump());
    } else if (keyword == "minItems") {
      if (value.is_array() && value.size() < rule) fail(place, "has too few items");
    } else if (keyword == "maxItems") {
      if (value.is_array() && value.size() > rule) fail(place, "has too many items");
    } else if (keyword == "items" || keyword == "prefixItems") {
      if (!value.is_array()) return;
      const bool each = keyword == "items";
      for (std::size_t i = 0; i < value.size() && (each || i < rule.size()); ++i)
        check(value[i], each ? rule : rule[i], file, place + "/" + std::to_string(i));
    } else if (keyword == "required") {
      for (const json& name : rule)
        if (value.is_object() && !value.contains(name)) fail(place, "lacks " + name.dump());
    } else if (keyword == "properties" || keyword == "additionalProperties") {
      if (value.is_object()) members(keyword, rule, value, schema, file, place);
    } else {
      throw std::runtime_error("schema keyword " + keyword + " is not known to this checker");
    }
  }

  void members(const std::string& keyword, const json& rule, const json& value, const json& schema,
               const std::string& file, const std::string& place) {
    const json known = schema.value("properties", json::object());
    for (const auto& [name, member] : value.items()) {
      const std::string at = place + "/" + name;
      if (keyword == "properties") {
        if (rule.contains(name)) check(member, rule[name], file, at);
      } else if (!known.contains(name)) {
        if (rule.is_object())
          check(member, rule, file, at);
        else if (rule == false)
          fail(at, "is not in the schema");
      }
    }
  }

  std::map<std::string, json> files_;
};

std::map<std::string, json> published() {
  std::map<std::string, json> files;
  const auto folder = std::filesystem::path(source_dir) / "docs/schema";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream stream(entry.path());
    files[entry.path().filename()] = json::parse(stream);
  }
  return files;
}

}  // namespace

std::vector<std::string> schema_errors(const json& value, const json& schema) {
  Checker checker({{"", schema}});
  checker.check(value, schema, "", "");
  return checker.errors;
}

std::vector<std::string> schema_errors(const std::string& text) {
  const json value = json::parse(text);
  std::string name =
      value.at("schema").get<std::string>().substr(std::string("ac-advisor/").size());
  std::replace(name.begin(), name.end(), '/', '-');
  name += ".json";
  Checker checker(published());
  checker.check(value, checker.file(name), name, "");
  return checker.errors;
}

}  // namespace ac_advisor::test
