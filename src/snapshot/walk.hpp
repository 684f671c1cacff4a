#pragma once

#include "ac_advisor/snapshot/analysis.hpp"
#include "history.hpp"

namespace ac_advisor::snapshot {

/// Allocated and reserved bytes after each event, and their peaks: what `max_memory_allocated` and
/// `max_memory_reserved` are since the history began.
struct Walk {
  std::vector<Bytes> live, reserved;
  Bytes peak = 0, peak_reserved = 0;
  std::int64_t peak_event = -1;  ///< -1: at the history's begin; the number of events: at its end
  std::int64_t peak_reserved_event = -1;
};
[[nodiscard]] Walk walk_events(const Snapshot& snapshot, const History& history);

/// Allocations that are live after an event.
[[nodiscard]] std::vector<const Allocation*> live_at(const History& history, std::int64_t event);

/// Segments, or mapped ranges, after an event, by address.
[[nodiscard]] std::vector<Range> ranges_at(const Snapshot& snapshot, const History& history,
                                           std::int64_t event);

/// The timeline in at most `count` stretches of events.
[[nodiscard]] std::vector<Moment> moments(const Snapshot& snapshot, const History& history,
                                          const Walk& walk,
                                          const std::vector<profile::Category>& kinds,
                                          std::size_t count);

}  // namespace ac_advisor::snapshot
