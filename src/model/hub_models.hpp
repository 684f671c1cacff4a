#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {

/// A model of Hugging Face's Hub whose configuration is built in (data/models/hub.json).
struct HubModel {
  std::string id;            ///< "Qwen/Qwen3-8B", as the Hub writes it
  std::string config;        ///< what its config.json says of shapes and ops, as JSON
  std::int64_t counted = 0;  ///< parameters, as published
  std::string counted_by;    ///< where they are published
  std::string beside;        ///< what that count holds beside parameters, or lacks: words
};

/// The model of that id, whatever the case of its letters; none where none is built in.
[[nodiscard]] std::optional<HubModel> find_hub_model(std::string_view id);

/// The one whose id ends in "/name", whatever the case of its letters, the first of several ids of
/// one configuration; none where configurations differ.
[[nodiscard]] std::optional<HubModel> find_hub_model_by_last_part(std::string_view name);

/// Ids of all of them, in alphabetical order.
[[nodiscard]] std::vector<std::string> hub_names();

/// One sentence for those who plan a model whose dimensions are the built-in ones: where they are
/// from; empty for any other. Such a model's name is its id, and no other's but a graph's has a
/// '/'.
[[nodiscard]] std::string built_in_note(const ModelSpec& spec);

/// The id that is most likely meant by `name`, which is none: the one of this last part
/// ("Qwen3-8B"), or the nearest; empty where none is near.
[[nodiscard]] std::string nearest_hub_name(std::string_view name);

}  // namespace ac_advisor::model
