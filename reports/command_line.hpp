#pragma once

#include <string>

#include "ac_advisor/model/variant_options.hpp"

namespace ac_advisor::reports {

using ac_advisor::options_of;

/// "--batch 8 --seq 2048", quoted for a shell where that is needed.
[[nodiscard]] std::string command_line(const OptionList& options);
/// One word of a shell's command line.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace ac_advisor::reports
