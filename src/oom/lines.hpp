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
  bool boxed = false;      ///< in a frame that rich drew
  bool quoted = false;     ///< after "> ": pytest's, of the line that raised
  std::string speaker;     ///< who says it, as it stood there: lines of one process have the same
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The last `most` lines of a text, where its error stands, each of at most 4,096 bytes. A
/// traceback that was pasted into one line, or that a log in JSON has in one text, is as many lines
/// as it was.
[[nodiscard]] std::vector<Line> lines_of(std::string_view text, std::size_t most = 2'000'000);

}  // namespace ac_advisor::oom
