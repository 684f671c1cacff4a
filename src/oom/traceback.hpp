#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ac_advisor/oom/error.hpp"
#include "lines.hpp"

namespace ac_advisor::oom {

/// Gathers the frames of each process's traceback from lines as they come.
class Tracebacks {
 public:
  void read(const Line& line);
  /// Of the process that this line is of: what it told since its last traceback began.
  [[nodiscard]] std::vector<Frame> take(const Line& line);

 private:
  /// Which of the lines after a frame is its source.
  enum class Source : std::uint8_t {
    none,
    next,    ///< the one after `File "…", line N, in f`
    pointed  ///< the one with rich's "❱  462 │" or IPython's "-> 2824" before it
  };
  struct Open {
    std::vector<Frame> frames;
    Source wants = Source::none;
    std::string half;    ///< a path that rich broke, up to its line's end
    std::string quoted;  ///< pytest's "> " line, whose place follows
    std::string last;    ///< a line of code, where no frame was
  };
  void add(Open& open, Frame frame, Source wants);
  std::map<std::string, Open> open_;
};

/// Frames of a log that was pasted newest line first: what stands after the error, each source line
/// above its `File "…"`. Outermost first; none where the lines are in order.
[[nodiscard]] std::vector<Frame> frames_upwards(std::span<const Line> after);

}  // namespace ac_advisor::oom
