#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::profile {

using FieldValue = std::variant<bool, std::int64_t, double, std::string>;

/// One resolved option or one figure of a model, under the name that JSON, CSV and diffs use: the
/// option's name without its dashes, `_` for `-`.
struct Field {
  std::string name;
  FieldValue value;
  bool operator==(const Field&) const = default;
};

/// Every option of a configuration, in a fixed order: "batch", "seq", …, "ac" ("grouped:2").
[[nodiscard]] std::vector<Field> config_fields(const StepConfig& config);
/// Sets one field. Returns false for a name that is none. Throws UserError for a value that is
/// none.
bool set_config_field(StepConfig& config, const Field& field);

/// A model's figures: "hidden", "layers", …; per-block lists as text ("0×5 512 0×5 512").
[[nodiscard]] std::vector<Field> model_fields(const model::ModelSpec& spec);

/// "true", "8", "0.1", "grouped:2"
[[nodiscard]] std::string to_string(const FieldValue& value);

/// An option that the first files of version 1 do not have, at its default: JSON leaves it out.
[[nodiscard]] bool is_newer_default(const Field& field);

}  // namespace ac_advisor::profile
