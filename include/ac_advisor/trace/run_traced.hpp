#pragma once

#include <string>
#include <vector>

#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

/// A program that was run under the injected library.
struct TracedRun {
  TraceFile file;                  ///< of every process that CUDA or NVTX called the library in
  std::string ended;               ///< "exit code 1", "signal 9 (Killed)"
  std::vector<std::string> lacks;  ///< why there may be nothing in it
};

/// Runs `command` with its streams and its working folder those of this process, and waits. Where
/// nothing can be traced it runs all the same. Throws UserError where it cannot be started, or
/// where another tool's injection is set up.
[[nodiscard]] TracedRun run_traced(const std::vector<std::string>& command);

}  // namespace ac_advisor::trace
