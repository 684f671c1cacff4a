#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ac_advisor::process {

/// How a child ended.
struct ChildEnd {
  bool started = false;  ///< false: `error`, or this process was asked to end before
  int error = 0;         ///< errno of what kept it from starting
  int status = 0;        ///< as waitpid has it
};

using Environment = std::vector<std::pair<std::string, std::string>>;

enum class WithoutParent { goes_on, ends };

/// Runs `command`, found as a shell finds it, with this process's streams, folder and environment,
/// `more` over it, and waits for it; meanwhile it hears this process's signals (EndingSignals).
/// Once this process was asked to end, nothing that the command started outlives it. `ends`: it
/// gets SIGTERM should this process die. `output`: a file for what it writes to stdout and stderr;
/// its stdin is empty then. For the main thread: the kernel takes a thread for the parent.
[[nodiscard]] ChildEnd run_child(std::vector<std::string> command, const Environment& more = {},
                                 WithoutParent without = WithoutParent::goes_on,
                                 const std::string& output = {});

/// "exit code 1", "signal 9 (Killed)".
[[nodiscard]] std::string how_it_ended(int status);

}  // namespace ac_advisor::process
