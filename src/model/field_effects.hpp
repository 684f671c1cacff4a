#pragma once

#include <string_view>

#include "json_value.hpp"

namespace ac_advisor::model {

/// What a field of a config.json does to a training step.
enum class Effect : std::uint8_t {
  none,       ///< neither shapes nor ops: token ids, initialisation, generation
  structure,  ///< shapes or ops, unless it has its neutral value
  elsewhere,  ///< of another program's code (inference servers): transformers does not read it
};

/// One field that Hugging Face configurations have. `null`, "" and empty lists and objects are
/// neutral for all; a list is where each of its entries is.
struct FieldEffect {
  std::string_view name;
  Effect effect = Effect::none;
  std::string_view what = {};  ///< "experts", "multipliers", …: what it changes
  double neutral = 0.0;        ///< the number that changes nothing; of a flag, 1 for true
  std::string_view neutral_text = {};
};

/// nullptr where no row has the name. A leading underscore marks transformers' own notes.
[[nodiscard]] const FieldEffect* find_field_effect(std::string_view name);
/// The value leaves the step as it is without the field.
[[nodiscard]] bool is_neutral(const FieldEffect& field, const JsonValue& value);

}  // namespace ac_advisor::model
