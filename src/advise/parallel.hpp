#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ac_advisor::advise {

/// Of a space that asks for `threads`; 0: one a core.
inline unsigned threads_of(unsigned threads) {
  return threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
}

/// Runs `work(i)` for each i on a few threads; the first exception is rethrown.
template <typename Work>
void parallel(std::size_t count, unsigned threads, const Work& work) {
  const unsigned n = std::max(1U, std::min<unsigned>(threads, static_cast<unsigned>(count)));
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        return;
      }
    }
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < n; ++t) pool.emplace_back(run);
  run();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ac_advisor::advise
