#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ac_advisor/trace/trace.hpp"
#include "trace/range_tree.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {

/// So that a map of strings is looked into without making one.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};

/// One piece of work as the device ran it. Times in nanoseconds, one clock.
struct DeviceWork {
  /// `graph`: a whole execution of a CUDA graph, its kernels not told.
  enum class Kind : std::uint8_t { kernel, copy, memset, graph };
  Kind kind = Kind::kernel;
  std::string_view name;
  std::int64_t start = 0, end = 0;
  std::int64_t device = 0;
  std::int64_t bytes = 0;
  bool captured = false;
  std::optional<std::int64_t> launched;  ///< when the host called for it
  std::string_view op;                   ///< of PyTorch that launched it; empty: not known
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
  /// An op of PyTorch ran inside `node`; `dispatch`: it called no other op, and is no view.
  void op(std::string_view name, NodeId node, std::int64_t host_ns, bool dispatch);
  void work(const DeviceWork& item, NodeId node);
  /// Fills slices, kernels, ranges, gaps, copies, communication, ops, recomputed and steps of
  /// `trace`, and leaves it the devices that worked. The collector goes on afterwards.
  void report(Trace& trace) const;

 private:
  struct Pending {
    std::int64_t start = 0, end = 0;
    NodeId node = 0;
    std::uint32_t name = 0;
    bool kernel = false;
    std::optional<std::int64_t> launched;
  };
  struct Timeline {
    std::vector<Pending> pending;  ///< a heap, earliest start first
    std::int64_t busy_until = 0;
    // Of all kernels; of those that compute. As early as any clock goes.
    std::int64_t kernels_until = -clock_limit, compute_until = -clock_limit;
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
    std::array<std::int64_t, window_names.size()> exposed_ns{};
    std::map<std::int64_t, Timeline> devices;
  };

  std::uint32_t name_id(std::string_view name);
  static Work& of(State& state, NodeId node);
  void place(State& state, std::int64_t device, Timeline& timeline, const Pending& item) const;
  void add_kernel(const DeviceWork& item, NodeId node, std::uint32_t name, std::int64_t ns);
  void add_copy(std::uint32_t name, NodeId node, std::int64_t ns, std::int64_t bytes);
  void report_ops(Trace& trace) const;

  const RangeTree& ranges_;
  State state_;
  std::vector<std::string> names_;
  std::vector<bool> communicates_;  ///< by name
  std::unordered_map<std::string, std::uint32_t, NameHash, std::equal_to<>> name_ids_;
  using Key = std::pair<std::uint32_t, std::uint32_t>;
  std::map<Key, KernelTotal> kernels_;         ///< (name, slice)
  std::map<Key, OpTotal> ops_;                 ///< (name, slice)
  std::map<Key, CopyTotal> copies_;            ///< (name, window)
  std::map<Key, RecomputedTotal> recomputed_;  ///< (node, op)
  std::array<Communication, window_names.size()> communication_{};
  std::int64_t first_start_ = 0;
  bool any_ = false;
};

}  // namespace ac_advisor::trace
