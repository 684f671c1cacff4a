#pragma once

#include <map>

#include "history.hpp"

namespace ac_advisor::snapshot {

using Ranges = std::map<std::int64_t, Range>;

/// Takes [address, address + size) out of what is mapped; it may be a part of a longer range.
void take_out(Ranges& ranges, std::int64_t address, std::int64_t size);

/// What the allocator had from the device before the first event: the final state, with the
/// segments of the trace undone from the last to the first.
[[nodiscard]] std::vector<Range> ranges_at_begin(const Snapshot& snapshot, int device,
                                                 const std::deque<Event>& trace);

/// Fills in `size` where it is 0. A block of a large segment is not split when less than 1 MiB
/// would be left, so its size follows from what was free at its address: the history is walked
/// with the addresses that the allocator chose.
void find_block_sizes(History& history, const std::deque<Event>& trace,
                      const AllocatorSettings& settings);

}  // namespace ac_advisor::snapshot
