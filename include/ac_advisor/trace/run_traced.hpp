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

/// Runs `command` with its streams and its working folder those of this process, and waits;
/// meanwhile signals that ask this process to end go to it. Where nothing can be traced it runs all
/// the same. `ends_with_caller`: it is ended should this process be killed. Throws UserError where
/// it cannot be started, or where another tool's injection is set up.
[[nodiscard]] TracedRun run_traced(const std::vector<std::string>& command,
                                   bool ends_with_caller = false);

}  // namespace ac_advisor::trace
