#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/snapshot/snapshot.hpp"

namespace ac_advisor::snapshot {

using Bytes = std::int64_t;
using ByCategory = std::array<Bytes, profile::category_count>;

/// Memory that a source line, a module or a label holds at the peak.
struct Site {
  std::string where;  ///< "modeling_llama.py:176 forward"; empty: no frames were recorded
  profile::Category category{};
  Bytes bytes = 0;
  std::int64_t blocks = 0;
};

/// One block that is live at the peak.
struct LiveBlock {
  Bytes size = 0, requested = 0;
  std::int64_t address = 0, stream = 0;
  std::int64_t born = 0, freed = 0;  ///< events; -1: before the history, the last: never
  profile::Category category{};
  std::string where, metadata;
  std::vector<std::string> stack;  ///< innermost first, at most eight frames
};

struct StepSummary {
  std::int64_t begin = 0, end = 0;  ///< events [begin, end)
  bool complete = false;
  Bytes peak_allocated = 0, peak_reserved = 0;
  std::array<Bytes, 5> peak_by_phase{};      ///< 0: the phase was not seen
  std::array<std::int64_t, 5> phase_ends{};  ///< event after each phase's last
  Bytes begins_with = 0;                     ///< allocated between this step and the one before
  double seconds = 0;                        ///< 0: no times were recorded
};

/// A segment that is not full when most was reserved, and what keeps it from being given back.
struct PinnedSegment {
  std::int64_t address = 0, stream = 0;
  Bytes size = 0, used = 0;
  std::int64_t blocks = 0;  ///< live ones
  Bytes largest_free = 0;
  std::string smallest_where;  ///< where its smallest live block was allocated
  Bytes smallest = 0;
};

struct Fragmentation {
  Bytes peak_reserved = 0;
  Bytes allocated_then = 0;           ///< when most was reserved
  Bytes free_then = 0;                ///< reserved and not allocated
  Bytes largest_free = 0;             ///< the largest request that a free block would have served
  std::vector<PinnedSegment> pinned;  ///< most free bytes first, at most ten
  /// The same requests, in the same order, through the allocator's replica from an empty cache.
  std::optional<Bytes> replayed_reserved, replayed_expandable;
  std::string not_replayed;  ///< why not
};

struct OutOfMemory {
  std::int64_t event = 0;
  Bytes requested = 0;
  Bytes device_free = 0;
  Bytes allocated = 0, reserved = 0, cached = 0;  ///< at that moment
  Bytes largest_free = 0;                         ///< contiguous, in the pools
  Bytes would_have_fitted = 0;  ///< the largest request that could have been served
  /// With expandable segments all free granules serve one request.
  Bytes would_have_fitted_expandable = 0;
  std::string where;
  std::vector<std::string> stack;
};

/// The memory within a stretch of events, where most is allocated in it.
struct Moment {
  std::int64_t event = 0;
  std::int64_t time_us = 0;
  Bytes reserved = 0;
  Bytes lowest = 0;  ///< allocated, at the stretch's lowest point
  ByCategory bytes{};
  [[nodiscard]] Bytes allocated() const;
};

/// A large allocation, for the page to tell what is live under the pointer.
struct Bar {
  std::int64_t born = 0, freed = 0;
  Bytes size = 0;
  profile::Category category{};
  std::string where;
  std::vector<std::string> stack;  ///< innermost first, at most 128 frames
};

struct DeviceSummary {
  int device = 0;
  std::int64_t events = 0;
  Bytes peak_allocated = 0, reserved = 0;
};

/// What a snapshot says of one device.
struct Analysis {
  std::string origin;
  int device = 0;
  std::vector<DeviceSummary> devices;
  std::int64_t events = 0;
  double seconds = 0;  ///< from the first event to the last; 0: no times were recorded
  Bytes began_allocated = 0, began_reserved = 0;  ///< when the history began
  Bytes ended_allocated = 0, ended_reserved = 0;  ///< when the snapshot was taken
  Bytes peak_allocated = 0, peak_requested = 0, peak_reserved = 0;
  std::int64_t peak_event = 0;  ///< the number of events: in the final state
  std::string peak_phase, peak_where;
  ByCategory at_peak{};
  std::array<Bytes, 5> peak_by_phase{};
  std::vector<Site> sites;      ///< at the peak, largest first
  std::vector<LiveBlock> live;  ///< at the peak, largest first
  std::vector<StepSummary> steps;
  std::string how_steps;
  Fragmentation fragmentation;
  std::vector<OutOfMemory> out_of_memory;
  std::vector<Moment> timeline;
  std::vector<Bar> bars;  ///< largest first
  std::string allocator_settings;
  std::vector<std::string> notes;
};

struct AnalyzeOptions {
  std::optional<int> device;    ///< none: the one with the highest peak
  std::size_t moments = 16384;  ///< of the timeline at most
  std::size_t bars = 3000;
};
/// Throws UserError for a device that the snapshot has not.
[[nodiscard]] Analysis analyze(const Snapshot& snapshot, const AnalyzeOptions& options = {});

/// As any other profile: `source` is measured; what a snapshot cannot tell is absent, with why.
[[nodiscard]] profile::Profile to_profile(const Analysis& analysis);

/// What grew from one snapshot to the next, by source line and category, in their final states.
struct Growth {
  std::string a_origin, b_origin;
  int device = 0;
  Bytes a_allocated = 0, b_allocated = 0, a_reserved = 0, b_reserved = 0;
  struct Row {
    std::string where;
    profile::Category category{};
    Bytes a = 0, b = 0;
    std::int64_t a_blocks = 0, b_blocks = 0;
  };
  std::vector<Row> rows;   ///< only what differs, most growth first
  std::vector<Row> sizes;  ///< the same by size of block, for what has no frames
};
[[nodiscard]] Growth growth(const Snapshot& a, const Snapshot& b, const AnalyzeOptions& options);

}  // namespace ac_advisor::snapshot
