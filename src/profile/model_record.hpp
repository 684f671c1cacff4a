#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::profile {

using Json = nlohmann::ordered_json;

/// As saved profiles and baselines have it.
[[nodiscard]] const char* name_of(model::Activation activation);
/// Every figure of the model, so that a saved profile tells what was planned.
[[nodiscard]] Json model_json(const model::ModelSpec& spec);
/// Reads it back. Throws UserError naming `origin` and the field.
[[nodiscard]] model::ModelSpec read_model(const Json& json, const std::string& origin);

}  // namespace ac_advisor::profile
