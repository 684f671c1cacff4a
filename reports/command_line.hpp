#pragma once

#include <optional>
#include <string>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::reports {

/// The options that give `config`, without those that its framework's preset gives already.
/// Empty where the command line cannot say it.
[[nodiscard]] std::optional<OptionList> options_of(const StepConfig& config);

/// "--batch 8 --seq 2048", quoted for a shell where that is needed.
[[nodiscard]] std::string command_line(const OptionList& options);
/// One word of a shell's command line.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace ac_advisor::reports
