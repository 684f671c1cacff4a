#include "trainer/stop.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ac_advisor::trainer {
namespace {

std::atomic<int> stop_signal = 0;
std::shared_mutex files;

// Who ends a run tells it to several processes of it, and they tell each other: one request.
constexpr std::chrono::seconds same_request{1};

[[noreturn]] void watch() {
  const sigset_t set = stop_signals();
  std::chrono::steady_clock::time_point asked;
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!stopping()) asked = now;
    request_stop(signal);
    if (now - asked < same_request) continue;
    const std::scoped_lock none_half_written(files);
    _exit(stopped_exit_code());
  }
}

}  // namespace

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

void hold_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A shell starts what it does not wait for with SIGINT ignored.
  std::signal(SIGINT, SIG_DFL);
}

void watch_stop_signals() { std::thread(watch).detach(); }

void request_stop(int signal) {
  int none = 0;
  stop_signal.compare_exchange_strong(none, signal);
}

bool stopping() { return stop_signal != 0; }

int stopped_exit_code() { return 128 + (stopping() ? stop_signal.load() : SIGINT); }

std::shared_lock<std::shared_mutex> writing_a_file() {
  return std::shared_lock<std::shared_mutex>(files);
}

}  // namespace ac_advisor::trainer
