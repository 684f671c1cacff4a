#pragma once

#include <string>

namespace ac_advisor::model {

/// MODEL's configuration, wherever it was found.
struct FoundConfig {
  std::string text;
  std::string origin;  ///< names it in errors
  std::string name;    ///< the model's, for tables; of one of the Hub that is built in: its id
};

/// Whether MODEL is a configuration in place, and not where one is.
[[nodiscard]] inline bool is_config(const std::string& model) { return model.starts_with('{'); }
/// As `load_model` looks for it. Throws UserError where nothing is found.
[[nodiscard]] FoundConfig find_config(const std::string& model);

}  // namespace ac_advisor::model
