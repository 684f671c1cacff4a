#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ac_advisor/trace/trace.hpp"
#include "trace/range_tree.hpp"

namespace ac_advisor::trace {

/// One kernel, copy or memset as the device ran it. Times in nanoseconds, one clock.
struct DeviceWork {
  enum class Kind : std::uint8_t { kernel, copy, memset };
  Kind kind = Kind::kernel;
  std::string_view name;
  std::int64_t start = 0, end = 0;
  std::int64_t device = 0;
  std::int64_t bytes = 0;
  bool captured = false;
};

/// Adds up device work by range and by kernel, and finds the gaps between. Bounded memory: totals
/// of at most `max_kernels` names, and a window of the latest work in which records may come out of
/// order. Not thread-safe.
class Collector {
 public:
  static constexpr std::size_t max_kernels = 4096;
  static constexpr std::size_t reorder_window = 1 << 15;  ///< per device
  static constexpr std::size_t gaps_kept = 24;

  explicit Collector(const RangeTree& ranges) : ranges_(ranges) {}

  /// The host launched a kernel or a graph inside `node`.
  void launch(NodeId node);
  void work(const DeviceWork& item, NodeId node);
  /// Fills slices, kernels, ranges, gaps and steps of `trace`, and leaves it the devices that
  /// worked. The collector goes on afterwards.
  void report(Trace& trace) const;

 private:
  struct Pending {
    std::int64_t start = 0, end = 0;
    NodeId node = 0;
    std::uint32_t name = 0;
  };
  struct Timeline {
    std::vector<Pending> pending;  ///< a heap, earliest start first
    std::int64_t busy_until = 0;
    std::uint32_t last_name = 0;
    bool started = false;
  };
  struct Seen {  ///< a gap, its names not yet spelt out
    std::int64_t start = 0, ns = 0, device = 0;
    NodeId node = 0;
    std::uint32_t before = 0, after = 0;
  };
  struct State {
    std::vector<Work> by_node;
    std::vector<Seen> gaps;
    std::map<std::int64_t, Timeline> devices;
  };

  std::uint32_t name_id(std::string_view name);
  static Work& of(State& state, NodeId node);
  static void place(State& state, std::int64_t device, Timeline& timeline, const Pending& item);

  const RangeTree& ranges_;
  State state_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> name_ids_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, KernelTotal> kernels_;  ///< (name, slice)
  std::int64_t first_start_ = 0;
  bool any_ = false;
};

}  // namespace ac_advisor::trace
