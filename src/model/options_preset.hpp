#pragma once

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::options {

/// Frameworks with a preset, in alphabetical order: the files of data/frameworks/.
[[nodiscard]] std::vector<std::string_view> framework_names();

struct AboutFramework {
  std::string_view name;
  std::string title, version;
};
[[nodiscard]] std::vector<AboutFramework> frameworks();

/// What data/frameworks/<name>.json sets, as options of the command line. A null value sets
/// nothing. Throws UserError when there is no such file.
[[nodiscard]] const OptionList& framework_preset(const std::string& name);

}  // namespace ac_advisor::options
