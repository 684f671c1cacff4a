#include "emulator/launch_log.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <vector>

#include "emulator/answer.hpp"

namespace emulator::launch_log {
namespace {

std::atomic<bool> on{false};

struct Log {
  std::mutex mutex;
  std::vector<std::uint64_t> times;  ///< nanoseconds since 1970, the clock of torch.profiler
};
Log& log() {
  static auto* l = new Log;
  return *l;
}

}  // namespace

void note() noexcept {
  if (!on.load(std::memory_order_relaxed)) return;
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  l.times.push_back(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                    static_cast<std::uint64_t>(now.tv_nsec));
}

}  // namespace emulator::launch_log

/// Begins (an empty log) or ends noting launches.
ANSWER void ac_advisor_emulator_log_launches(int on) {
  using namespace emulator::launch_log;
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  if (on != 0) l.times.clear();
  emulator::launch_log::on = on != 0;
}

/// How many were noted; the first `room` of their times go to `out`.
ANSWER std::uint64_t ac_advisor_emulator_launch_times(std::uint64_t* out, std::uint64_t room) {
  using namespace emulator::launch_log;
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  std::copy_n(l.times.begin(), std::min<std::uint64_t>(room, l.times.size()), out);
  return l.times.size();
}
