#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/snapshot/snapshot.hpp"

namespace ac_advisor::snapshot {

/// One tensor's memory from its birth to its end. Events are told by their index in the trace.
struct Allocation {
  std::int64_t address = 0;
  std::int64_t requested = 0;  ///< bytes that were asked for
  std::int64_t size = 0;       ///< bytes of its block: what `memory_allocated` counts
  std::int64_t stream = 0;
  std::int64_t born = before;  ///< index of its alloc
  std::int64_t freed = 0;      ///< index of its free; the number of events: never
  std::int64_t reusable = 0;   ///< index after which its memory can be given again
  StackId stack = 0, free_stack = 0;
  TextId metadata = 0, category = 0;
  bool in_final_state = false;

  static constexpr std::int64_t before = -1;  ///< before the recorded history
};

/// Memory that the allocator had from the device when the history began.
struct Range {
  std::int64_t address = 0, size = 0, stream = 0;
  bool large = true, expandable = false;
};

/// What one device's trace says, with the block sizes that its events do not tell.
struct History {
  int device = 0;
  std::int64_t events = 0;
  std::vector<Allocation> allocations;  ///< those from before the history first, then by birth
  std::vector<Range> ranges;            ///< at the history's begin, by address
  std::int64_t began_allocated = 0, began_reserved = 0;
  std::int64_t ended_allocated = 0, ended_reserved = 0;  ///< of the final state
  std::int64_t lost_frees = 0;     ///< addresses that were given again with no free between
  std::int64_t ended_unseen = 0;   ///< live at the end of the history, not in the final state
  std::int64_t after_history = 0;  ///< in the final state, allocated after the last event
};

/// Bytes of the block for a request (c10/cuda/CUDACachingAllocator.cpp, round_size).
[[nodiscard]] std::int64_t block_size(std::int64_t requested, const AllocatorSettings& settings);

/// Pairs allocations and frees; what was there before the history is found from the final state,
/// walking backward.
[[nodiscard]] History history_of(const Snapshot& snapshot, int device);

/// Devices that have memory or events, in order.
[[nodiscard]] std::vector<int> devices(const Snapshot& snapshot);

}  // namespace ac_advisor::snapshot
