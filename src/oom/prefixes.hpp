#pragma once

#include <cstddef>
#include <string_view>

#include "lines.hpp"

namespace ac_advisor::oom {

/// Where the text of a line begins, after what launchers, loggers and terminals put before it: who
/// says it goes into `line.speaker` and `line.rank`, when and how loud is dropped.
[[nodiscard]] std::size_t begin_of_text(std::string_view text, Line& line);

}  // namespace ac_advisor::oom
