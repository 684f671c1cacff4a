#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ac_advisor/trace/trace.hpp"
#include "trace/collector.hpp"
#include "trace/range_tree.hpp"

namespace ac_advisor::trace {

/// What a traced process tells of itself while it runs: ranges and launches from its threads,
/// device work later and from other threads. Thread-safe; memory is bounded by tables of fixed
/// size, but for the list of live allocations. Knows nothing of CUPTI.
class Recorder {
 public:
  /// Launches that may be in flight: a record that comes later than this many has no range.
  static constexpr std::size_t launches_in_flight = std::size_t{1} << 18;
  static constexpr std::size_t max_depth = 128;
  static constexpr std::size_t max_threads = 4096;
  static constexpr std::size_t max_allocations = std::size_t{1} << 20;

  explicit Recorder(std::int64_t pid);

  /// NVTX ranges of the calling thread; returns the depth before the push.
  int push(std::string_view name);
  int pop();
  /// A range that any thread may end.
  std::uint64_t start(std::string_view name);
  void end(std::uint64_t range);

  /// The calling thread calls the CUDA API under this number; `launches` a kernel or a graph.
  void api_call(std::uint32_t correlation, bool launches);
  void work(const DeviceWork& item, std::uint32_t correlation);
  void allocated(std::int64_t address, std::int64_t bytes, std::int64_t device);
  void freed(std::int64_t address);
  void device(const Device& device);
  void dropped(std::int64_t records);
  void note(const std::string& text);

  [[nodiscard]] std::int64_t kernels();
  [[nodiscard]] Trace report();

 private:
  struct Open {
    NodeId node = RangeTree::root;
    std::int64_t since = 0;
    std::int64_t launches_before = 0;
  };
  struct Thread {
    std::vector<Open> stack;
    std::size_t too_deep = 0;
    bool autograd = false;
  };
  struct Place {
    NodeId node = RangeTree::root;
    std::int64_t Attribution::*by = &Attribution::none;
  };
  struct Launch {
    std::uint32_t correlation = 0;
    Place place;
  };

  Thread* this_thread();
  void left(const Open& open);
  Place place(const Thread* thread);

  std::mutex mutex_;
  std::int64_t pid_;
  RangeTree ranges_;
  Collector collector_{ranges_};
  std::unordered_map<std::int64_t, Thread> threads_;
  std::int64_t main_thread_ = 0;  ///< whose ranges hold for threads that have none; 0: none yet
  std::map<std::uint64_t, Open> started_;
  std::uint64_t next_started_ = 1;
  std::vector<Launch> launches_;
  std::int64_t launch_count_ = 0, kernel_count_ = 0;
  Attribution attribution_;
  std::unordered_map<std::int64_t, std::pair<std::int64_t, std::int64_t>> live_;  // bytes, device
  std::map<std::int64_t, std::int64_t> live_bytes_;
  std::int64_t peak_bytes_ = 0;
  bool lost_allocations_ = false;
  std::vector<Device> devices_;
  std::int64_t dropped_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace ac_advisor::trace
