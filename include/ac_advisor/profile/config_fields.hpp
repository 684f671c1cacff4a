#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::profile {

using FieldValue = OptionValue;

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

/// The fields that files and fingerprints hold: all but options that the first files of version 1
/// do not have, at their defaults.
[[nodiscard]] std::vector<Field> saved_config_fields(const StepConfig& config);

}  // namespace ac_advisor::profile
