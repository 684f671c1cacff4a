// The options as JSON Schema, which docs/schema holds.
#include <nlohmann/json.hpp>

#include "ac_advisor/model/option_table.hpp"
#include "cli/generate.hpp"

namespace ac_advisor::cli {
namespace {

using Json = nlohmann::ordered_json;

Json schema_of(const OptionRow& row) {
  Json out;
  switch (row.get(StepConfig{}).index()) {
    case 0:
      out["type"] = "boolean";
      break;
    case 1:
      out["type"] = "integer";
      out["minimum"] = row.least;
      out["maximum"] = row.most;
      break;
    case 2:
      out["type"] = "number";
      break;
    default:
      if (!row.words.empty() && row.pattern.empty()) {
        out["enum"] = Json::array();
        for (const std::string_view word : row.words) out["enum"].push_back(word);
      } else {
        out["type"] = "string";
        if (!row.pattern.empty()) out["pattern"] = row.pattern;
      }
  }
  out["description"] = row.help;
  return out;
}

}  // namespace

std::string options_schema() {
  Json out;
  out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  out["title"] = "The configuration of a training step";
  out["type"] = "object";
  out["description"] =
      "Every option of the configuration, resolved. One that is not required and absent is at its "
      "default.";
  out["properties"] = Json::object();
  out["required"] = Json::array();
  for (const OptionRow& row : option_table()) {
    out["properties"][row.key] = schema_of(row);
    if (!row.newer) out["required"].push_back(row.key);
  }
  out["additionalProperties"] = false;
  return out.dump(2) + "\n";
}

}  // namespace ac_advisor::cli
