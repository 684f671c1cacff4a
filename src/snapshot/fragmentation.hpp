#pragma once

#include "walk.hpp"

namespace ac_advisor::snapshot {

/// What is reserved and not allocated where most is reserved, and what expandable segments would
/// have needed for the same requests.
[[nodiscard]] Fragmentation fragmentation(const Snapshot& snapshot, const History& history,
                                          const Walk& walk);

/// Every OutOfMemoryError of the history, with what the allocator had then.
[[nodiscard]] std::vector<OutOfMemory> out_of_memory(const Snapshot& snapshot,
                                                     const History& history, const Walk& walk);

}  // namespace ac_advisor::snapshot
