#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
  [[nodiscard]] const std::string& operator[](std::uint32_t id) const { return *names_[id]; }
  [[nodiscard]] std::size_t size() const { return names_.size(); }

 private:
  std::vector<const std::string*> names_;
  std::unordered_map<std::string, std::uint32_t, NameHash, std::equal_to<>> ids_;
};

/// Numbers that a file may choose freely (threads, devices), as small ones.
class Numbers {
 public:
  /// What does not fit is one with the last.
  std::uint16_t index(std::int64_t number);
  [[nodiscard]] std::int64_t operator[](std::uint16_t index) const { return numbers_[index]; }
  [[nodiscard]] std::size_t size() const { return numbers_.size(); }

 private:
  std::vector<std::int64_t> numbers_;
  std::unordered_map<std::int64_t, std::uint16_t> indices_;
};

/// The events of one process as another profiler wrote them, in any order; `totals` puts each
/// kernel into the range its launch was in. Times in nanoseconds, one clock. A trace of gigabytes
/// has millions of events: each takes 32 or 40 bytes, in lists that do not move when they grow.
struct Timeline {
  /// A range, or an op of PyTorch, on a thread of the host.
  struct Interval {
    std::int64_t start = 0, end = 0;
    std::uint32_t name = 0;
    std::uint32_t sequence = 0;  ///< PyTorch's, of an op's gradient; `no_sequence`: none
    std::uint32_t order = 0;     ///< in the file
    std::uint16_t thread = 0;    ///< index into `threads`
    bool op = false;             ///< an op of PyTorch, not a range
    bool recorded = false;       ///< for autograd
  };
  struct Call {  ///< of the CUDA API
    std::int64_t start = 0;
    std::uint64_t correlation = 0;
    std::uint16_t thread = 0;
    bool launch = false;  ///< of a kernel or a graph
    bool graph = false;
    std::uint8_t by = 0;   ///< what told the node: index into the members of Attribution
    NodeId node = 0;       ///< filled by `totals`, as `op`
    std::uint32_t op = 0;  ///< name; `no_name`: none
  };
  struct Work {
    std::int64_t start = 0, end = 0;
    std::uint64_t correlation = 0;
    std::int64_t bytes = 0;
    std::uint32_t name = 0;
    std::uint16_t device = 0;  ///< index into `devices`
    DeviceWork::Kind kind = DeviceWork::Kind::kernel;
    bool captured = false;
  };
  static constexpr std::uint32_t no_sequence = 0xFFFFFFFF, no_name = 0xFFFFFFFF;
  /// Thread of ranges that belong to the process and not to one of its threads.
  static constexpr std::int64_t process_thread = -1;

  void interval(std::int64_t start, std::int64_t end, std::int64_t thread, std::string_view name,
                bool op = false, bool recorded = false, std::optional<std::int64_t> sequence = {});
  void call(std::int64_t start, std::int64_t thread, std::uint64_t correlation,
            std::string_view name);

  std::int64_t pid = 0;
  Names names;
  Numbers threads, devices;
  std::deque<Interval> intervals;
  std::deque<Call> calls;
  std::deque<Work> work;
  std::map<std::int64_t, std::string> thread_names;

  /// Fills what `Collector::report` fills, and `attribution`; notes what of the events could not be
  /// placed. Sorts the events.
  void totals(Trace& trace);
  /// The phase of each kernel by time on the device, for samples: earliest first; valid after
  /// `totals`, where `keep_stretches` was set before.
  struct Stretch {
    std::int64_t start = 0, end = 0, device = 0;
    Phase phase = Phase::other;
  };
  bool keep_stretches = false;
  std::vector<Stretch> stretches;
};

/// "cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "hipModuleLaunchKernel"; not
/// cudaLaunchHostFunc.
[[nodiscard]] bool is_launch(std::string_view api_call);
[[nodiscard]] bool is_graph_launch(std::string_view api_call);
/// A thread of PyTorch's autograd engine, by its name.
[[nodiscard]] bool is_autograd_thread(std::string_view thread_name);

}  // namespace ac_advisor::trace
