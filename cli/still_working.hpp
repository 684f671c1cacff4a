#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ac_advisor::cli {

/// While one lives, `say` is told now and then how long it has been: a plan of thousands of blocks
/// takes minutes, and who waits should know that it is at work. What is over before says nothing.
class StillWorking {
 public:
  using Milliseconds = std::chrono::milliseconds;
  StillWorking(std::string what, Milliseconds first, Milliseconds every,
               std::function<void(const std::string&)> say);
  ~StillWorking();
  StillWorking(const StillWorking&) = delete;
  StillWorking& operator=(const StillWorking&) = delete;

 private:
  void watch();

  const std::string what_;
  const Milliseconds first_, every_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ac_advisor::cli
