#pragma once

#include <map>
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
  struct Open {
    std::vector<Frame> frames;
    bool wants_source = false;  ///< the line after `File "…", line N, in f`
  };
  std::map<std::string, Open> open_;
};

}  // namespace ac_advisor::oom
