#pragma once

#include <string_view>

namespace ac_advisor::model {

/// A `model_type` that transformers has modelling code for and this program has no family for.
struct OtherArchitecture {
  std::string_view name;
  std::string_view what;  ///< what it is, or has that llama's blocks lack; empty: not told here
};

/// nullptr where transformers 5.23.0 does not know the name, or where it is a family's.
[[nodiscard]] const OtherArchitecture* find_other_architecture(std::string_view model_type);

}  // namespace ac_advisor::model
