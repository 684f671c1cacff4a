#include "cli/still_working.hpp"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace ac_advisor::cli {

StillWorking::StillWorking(std::string what, Milliseconds first, Milliseconds every,
                           std::function<void(const std::string&)> say)
    : what_(std::move(what)), first_(first), every_(every), say_(std::move(say)) {
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StillWorking::~StillWorking() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void StillWorking::watch() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (Milliseconds wait = first_; !wake_.wait_for(lock, wait, [this] { return done_; });
       wait = every_) {
    const auto took = std::chrono::steady_clock::now() - begin;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
    say_(what_ + ": still at work after " + std::to_string(seconds) + " s; Ctrl-C ends it");
  }
}

}  // namespace ac_advisor::cli
