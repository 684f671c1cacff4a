#pragma once

#include <csignal>

namespace ac_advisor::process {

/// While one lives, SIGINT, SIGQUIT, SIGTERM and SIGHUP are noted instead of ending this process,
/// and passed on, with SIGUSR1 and SIGUSR2, to the child that run_child waits for: what was begun
/// is ended in order and nothing of it is left behind. What Ctrl-C at a terminal sends reaches the
/// child by itself and is not sent twice. A SIGHUP that was ignored (nohup) stays so. Of several,
/// the outermost counts. For the main thread.
class EndingSignals {
 public:
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  /// The first that asked this process to end; 0 where none did.
  [[nodiscard]] static int first();

  /// In a forked child, before exec: every signal does again what it did before.
  static void forget();
  /// Who hears of them from now on; 0: nobody.
  static void pass_to(int child);
};

/// The exit code of a process that a signal has asked to end, as shells have it: 130 for Ctrl-C.
[[nodiscard]] constexpr int exit_code_of(int signal) { return 128 + signal; }

/// While one lives, the signals above wait: while a file has a name that it is not to keep, and
/// between a fork and the moment that its child is known.
class SignalsWait {
 public:
  SignalsWait();
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

}  // namespace ac_advisor::process
