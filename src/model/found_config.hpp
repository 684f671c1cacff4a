#pragma once

#include <string>

namespace ac_advisor::model {

/// MODEL's configuration, wherever it was found.
struct FoundConfig {
  std::string text;
  std::string origin;    ///< names it in errors
  std::string name;      ///< the model's, for tables
  std::string built_in;  ///< of a model of the Hub: where its dimensions are from; else empty
};

/// As `load_model` looks for it. Throws UserError where nothing is found.
[[nodiscard]] FoundConfig find_config(const std::string& model);

}  // namespace ac_advisor::model
