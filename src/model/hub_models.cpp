#include "hub_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "embedded/embedded.hpp"
#include "letters.hpp"
#include "nearest.hpp"

namespace ac_advisor::model {
namespace {

using Json = nlohmann::ordered_json;

/// Parsed once a process, and only where an id is asked for.
const Json& table() {
  static const Json json = [] {
    for (const embedded::File& file : embedded::files())
      if (file.path == "models/hub.json") return Json::parse(file.text);
    return Json{{"columns", Json::array()}, {"models", Json::array()}};  // a build without it
  }();
  return json;
}

std::vector<std::string> ids_of(const Json& entry) {
  std::vector<std::string> ids;
  std::istringstream words(entry.at("ids").get_ref<const std::string&>());
  for (std::string id; words >> id;) ids.push_back(std::move(id));
  return ids;
}

/// The entry of an id, and the id as the Hub writes it: "gpt2" is openai-community/gpt2.
std::pair<const Json*, std::string> entry_of(std::string_view id) {
  const std::string wanted = lower(id);
  for (const Json& entry : table()["models"]) {
    std::vector<std::string> ids = ids_of(entry);
    for (std::string& known : ids) {
      if (lower(known) != wanted) continue;
      const bool whole = known.find('/') != std::string::npos;
      return {&entry, std::move(whole ? known : ids.front())};
    }
  }
  return {nullptr, {}};
}

/// "row" beside the file's "columns", null where the configuration has no such field, and "more".
Json config_of(const Json& entry) {
  Json config = Json::object();
  const Json& row = entry.at("row");
  for (std::size_t i = 0; i < row.size(); ++i)
    if (!row[i].is_null()) config[table()["columns"].at(i).get<std::string>()] = row[i];
  if (entry.contains("more")) config.update(entry["more"]);
  return config;
}

std::string_view last_part(std::string_view id) { return id.substr(id.rfind('/') + 1); }

/// In alphabetical order, whatever the case of the letters.
std::vector<std::string> ids_of_last_part(std::string_view name) {
  const std::string wanted = lower(name);
  std::vector<std::string> ids = hub_names();
  std::erase_if(ids, [&](const std::string& id) { return lower(last_part(id)) != wanted; });
  return ids;
}

}  // namespace

std::optional<HubModel> find_hub_model(std::string_view id) {
  const auto [entry, known] = entry_of(id);
  if (entry == nullptr) return std::nullopt;
  HubModel model;
  model.id = known;
  const Json* like =
      entry->contains("like") ? entry_of(entry->at("like").get<std::string>()).first : nullptr;
  Json config = config_of(like != nullptr ? *like : *entry);
  if (like != nullptr) config.merge_patch(entry->at("more"));
  model.config = config.dump();
  const Json& source = entry->contains("counted") ? *entry : *like;
  model.counted = source.at("counted").at(1).get<std::int64_t>();
  model.counted_by = table()["counted"].at(source["counted"].at(0).get<std::string>());
  model.beside = source.value("beside", "");
  return model;
}

std::optional<HubModel> find_hub_model_by_last_part(std::string_view name) {
  std::optional<HubModel> found;
  for (const std::string& id : ids_of_last_part(name)) {
    auto model = find_hub_model(id);
    if (!found)
      found = std::move(model);
    else if (model->config != found->config)
      return std::nullopt;
  }
  return found;
}

std::string built_in_note(const ModelSpec& spec) {
  const bool may_be = !spec.graph && spec.name.find('/') != std::string::npos;
  const auto model = may_be ? find_hub_model(spec.name) : std::nullopt;
  if (!model) return {};
  return fmt::format(
      "the dimensions are the built-in ones of {}, those of its published config.json, and make as "
      "many parameters as were published ({}); a config.json in Hugging Face's cache is read "
      "instead",
      model->id, model->counted_by);
}

std::vector<std::string> hub_names() {
  std::vector<std::string> names;
  for (const Json& entry : table()["models"])
    for (std::string& id : ids_of(entry)) names.push_back(std::move(id));
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return lower(a) < lower(b); });
  return names;
}

std::string nearest_hub_name(std::string_view name) {
  if (const auto ids = ids_of_last_part(last_part(name)); !ids.empty()) return ids.front();
  const std::vector<std::string> names = hub_names();
  const bool whole = name.find('/') != std::string_view::npos;
  const std::string wanted = lower(name);
  std::vector<std::string> texts;
  for (const std::string& id : names)
    texts.push_back(lower(whole ? std::string_view(id) : last_part(id)));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::string_view near = nearest(wanted, views);
  if (near.empty()) return {};
  return names[static_cast<std::size_t>(std::find(texts.begin(), texts.end(), near) -
                                        texts.begin())];
}

}  // namespace ac_advisor::model
