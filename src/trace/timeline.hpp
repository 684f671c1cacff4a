#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ac_advisor/trace/trace.hpp"
#include "trace/collector.hpp"

namespace ac_advisor::trace {

/// Strings, each kept once.
class Names {
 public:
  std::uint32_t id(std::string_view name);
  [[nodiscard]] const std::string& operator[](std::uint32_t id) const { return names_[id]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

/// The events of one process as another profiler wrote them, in any order; `totals` puts each
/// kernel into the range its launch was in. Times in nanoseconds, one clock.
struct Timeline {
  struct Interval {
    std::int64_t start = 0, end = 0;
    std::int64_t thread = 0;
    std::uint32_t name = 0;
    bool op = false;        ///< an op of PyTorch, not a range
    bool recorded = false;  ///< for autograd
  };
  struct Call {  ///< of the CUDA API
    std::int64_t start = 0;
    std::int64_t thread = 0;
    std::uint64_t correlation = 0;
    bool launch = false;  ///< of a kernel or a graph
    bool graph = false;
  };
  struct Work {
    DeviceWork::Kind kind = DeviceWork::Kind::kernel;
    std::uint32_t name = 0;
    std::int64_t start = 0, end = 0;
    std::int64_t device = 0;
    std::uint64_t correlation = 0;
    std::int64_t bytes = 0;
    bool captured = false;
  };
  /// Thread of ranges that belong to the process and not to one of its threads.
  static constexpr std::int64_t process_thread = -1;

  std::int64_t pid = 0;
  Names names;
  std::vector<Interval> intervals;
  std::vector<Call> calls;
  std::vector<Work> work;
  std::map<std::int64_t, std::string> thread_names;

  /// Fills what `Collector::report` fills, and `attribution`. Sorts the events.
  void totals(Trace& trace);
  /// The phase of each piece of work by time on the device, for samples: (start, end, phase),
  /// earliest first; valid after `totals`.
  struct Stretch {
    std::int64_t start = 0, end = 0, device = 0;
    Phase phase = Phase::other;
  };
  std::vector<Stretch> stretches;
};

/// "cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch"; not cudaLaunchHostFunc.
[[nodiscard]] bool is_launch(std::string_view api_call);
[[nodiscard]] bool is_graph_launch(std::string_view api_call);
/// A thread of PyTorch's autograd engine, by its name.
[[nodiscard]] bool is_autograd_thread(std::string_view thread_name);

}  // namespace ac_advisor::trace
