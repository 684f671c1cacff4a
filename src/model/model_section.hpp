#pragma once

#include <optional>
#include <string>

#include "family.hpp"
#include "json_value.hpp"

namespace ac_advisor::model {

/// The part of a configuration that describes the decoder, and its family.
struct ModelSection {
  const JsonValue::Object* object = nullptr;  ///< inside the configuration that was given
  std::string prefix;                         ///< "text_config." in a multimodal wrapper
  const Family* family = nullptr;             ///< nullptr: none is known for `model_type`
  std::optional<std::string> model_type;
};

/// `as` names the family of an unknown "model_type" (empty: none). Throws UserError where it is no
/// family, or where the file's "model_type" is known to be another architecture.
[[nodiscard]] ModelSection find_model_section(const JsonValue::Object& root,
                                              const std::string& origin, const std::string& as);

/// The error for a section without a family. `refused_as_llama`: why --as llama would be refused;
/// empty where it would be taken.
[[noreturn]] void fail_unknown_architecture(const ModelSection& section, const std::string& origin,
                                            const std::string& refused_as_llama);

}  // namespace ac_advisor::model
