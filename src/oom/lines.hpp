#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ac_advisor::oom {

/// A line of a log without what launchers and terminals put around it.
struct Line {
  std::string text;
  std::int64_t rank = -1;  ///< "[rank3]:", "[default3]:"; -1: not said
  std::string speaker;     ///< all that stood before the text: lines of one process have the same
};

/// The last `most` lines of a text, where its error stands, each of at most 4,096 bytes.
[[nodiscard]] std::vector<Line> lines_of(std::string_view text, std::size_t most = 2'000'000);

}  // namespace ac_advisor::oom
