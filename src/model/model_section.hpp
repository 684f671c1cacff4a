#pragma once

#include <string>

#include "family.hpp"
#include "json_value.hpp"

namespace ac_advisor::model {

/// The part of a configuration that describes the decoder, and its family.
struct ModelSection {
  const JsonValue::Object* object = nullptr;  ///< inside the configuration that was given
  std::string prefix;                         ///< "text_config." in a multimodal wrapper
  const Family* family = nullptr;
};

/// `as` overrides "model_type" (empty: none). Throws UserError listing the known families.
[[nodiscard]] ModelSection find_model_section(const JsonValue::Object& root,
                                              const std::string& origin, const std::string& as);

}  // namespace ac_advisor::model
