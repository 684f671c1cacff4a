#include "process/ending_signals.hpp"

#include <atomic>
#include <cerrno>
#include <iterator>

namespace ac_advisor::process {
namespace {

struct Passed {
  int number;
  bool ends;  ///< the sender wants this process to end
};
constexpr Passed signals[] = {{SIGINT, true}, {SIGQUIT, true},  {SIGTERM, true},
                              {SIGHUP, true}, {SIGUSR1, false}, {SIGUSR2, false}};

int depth = 0;
struct sigaction before[std::size(signals)];
std::atomic<int> first_signal = 0;
std::atomic<int> child = 0;

/// A terminal sends these to every process of its foreground group, the child among them.
bool from_terminal(const siginfo_t& info) {
  return info.si_code == SI_KERNEL && (info.si_signo == SIGINT || info.si_signo == SIGQUIT);
}

extern "C" void on_signal(int number, siginfo_t* info, void*) {
  const int problem = errno;
  int none = 0;
  for (const Passed& passed : signals)
    if (passed.number == number && passed.ends) first_signal.compare_exchange_strong(none, number);
  if (const int pid = child; pid > 0 && !from_terminal(*info)) ::kill(pid, number);
  errno = problem;
}

}  // namespace

EndingSignals::EndingSignals() {
  if (depth++ > 0) return;
  first_signal = 0;
  struct sigaction passing {};
  passing.sa_sigaction = on_signal;
  passing.sa_flags = SA_SIGINFO | SA_RESTART;
  for (std::size_t i = 0; i < std::size(signals); ++i) {
    ::sigaction(signals[i].number, &passing, &before[i]);
    if (signals[i].number == SIGHUP && before[i].sa_handler == SIG_IGN)
      ::sigaction(SIGHUP, &before[i], nullptr);
  }
}

EndingSignals::~EndingSignals() {
  if (--depth == 0) forget();
}

int EndingSignals::first() { return first_signal; }

void EndingSignals::forget() {
  for (std::size_t i = 0; i < std::size(signals); ++i)
    ::sigaction(signals[i].number, &before[i], nullptr);
}

void EndingSignals::pass_to(int pid) { child = pid; }

SignalsWait::SignalsWait() {
  sigset_t set;
  sigemptyset(&set);
  for (const Passed& passed : signals) sigaddset(&set, passed.number);
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalsWait::~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace ac_advisor::process
