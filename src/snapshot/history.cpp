#include "history.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "heap.hpp"

namespace ac_advisor::snapshot {
namespace {

using Index = std::uint32_t;

/// The divisions of a power of two that hold for a size; 0: none.
std::int64_t divisions_of(std::int64_t size, const AllocatorSettings& settings) {
  if (settings.roundup_power2_divisions.empty()) return 0;
  const auto log = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  const std::int64_t key = std::int64_t{1} << std::clamp(log - 20, 0, 15);
  const auto found = settings.roundup_power2_divisions.find(key);
  return found == settings.roundup_power2_divisions.end() ? 0 : found->second;
}

/// roundup_power2_next_division
std::int64_t round_to_division(std::int64_t size, std::int64_t divisions) {
  const auto bytes = static_cast<std::uint64_t>(size);
  if (std::has_single_bit(bytes)) return size;
  const std::uint64_t floor = std::bit_floor(bytes);
  const std::uint64_t part = floor >> (std::bit_width(static_cast<std::uint64_t>(divisions)) - 1);
  if (part == 0) return static_cast<std::int64_t>(floor << 1);
  return static_cast<std::int64_t>((bytes + part - 1) / part * part);
}

/// The allocations of one device's trace, paired by address.
class Pairing {
 public:
  Pairing(const Snapshot& snapshot, int device, History& to)
      : snapshot_(snapshot), device_(device), to_(to) {}

  void run(const std::deque<Event>& trace) {
    std::int64_t i = 0;
    for (const Event& e : trace) {
      if (e.action == Action::alloc)
        alloc(e, i);
      else if (e.action == Action::free_requested)
        requested(e, i);
      else if (e.action == Action::free_completed)
        completed(e, i);
      ++i;
    }
    finish();
  }

 private:
  Allocation& at(Index index) { return to_.allocations[index]; }

  void alloc(const Event& e, std::int64_t i) {
    const auto [open, fresh] = open_.try_emplace(e.address, static_cast<Index>(all()));
    if (!fresh) {  // its free was skipped, or not recorded
      Allocation& old = at(open->second);
      if (old.freed == to_.events) {
        old.freed = i;
        ++to_.lost_frees;
      }
      old.reusable = i;
      open->second = static_cast<Index>(all());
    }
    to_.allocations.push_back({e.address, e.size, 0, e.stream, i, to_.events, to_.events, e.stack,
                               0, e.metadata, e.category});
  }

  void requested(const Event& e, std::int64_t i) {
    const auto open = open_.find(e.address);
    if (open == open_.end()) {
      open_.emplace(e.address, static_cast<Index>(all()));
      to_.allocations.push_back({e.address, e.size, 0, e.stream, Allocation::before, i, to_.events,
                                 0, e.stack, e.metadata, 0});
      return;
    }
    Allocation& a = at(open->second);
    a.freed = i;
    a.free_stack = e.stack;
  }

  void completed(const Event& e, std::int64_t i) {
    const auto open = open_.find(e.address);
    if (open == open_.end()) {  // it was asked for before the history began
      to_.allocations.push_back({e.address, e.size, 0, e.stream, Allocation::before,
                                 Allocation::before, i, 0, e.stack, e.metadata, 0});
      return;
    }
    Allocation& a = at(open->second);
    if (a.freed == to_.events) {
      a.freed = i;
      a.free_stack = e.stack;
    }
    a.reusable = i;
    open_.erase(open);
  }

  /// The final state tells what is still there, what was always there, and what came later.
  void finish() {
    const std::size_t paired = all();
    std::vector<bool> seen(paired, false);
    std::vector<const Block*> others;
    std::vector<std::int64_t> streams;
    for (const Segment& s : snapshot_.segments) {
      if (s.device != device_) continue;
      to_.ended_reserved += s.size;
      for (const Block& b : s.blocks) {
        if (b.state == BlockState::inactive) continue;
        if (b.state == BlockState::allocated) to_.ended_allocated += b.size;
        const auto open = open_.find(b.address);
        if (open == open_.end()) {
          others.push_back(&b);
          streams.push_back(s.stream);
          continue;
        }
        seen[open->second] = true;
        Allocation& a = at(open->second);
        a.size = b.size;
        a.in_final_state = true;
        if (a.stack == 0) a.stack = b.stack;
        if (b.state == BlockState::allocated) a.freed = to_.events;
      }
    }
    for (const auto& [address, index] : open_)
      if (!seen[index] && at(index).freed == to_.events) ++to_.ended_unseen;
    if (others.empty()) return;
    const std::vector<Range> used = used_addresses();
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Block& b = *others[i];
      const bool later = overlaps(used, b.address, b.size);
      const std::int64_t freed = b.state == BlockState::allocated ? to_.events : Allocation::before;
      to_.after_history += later ? 1 : 0;
      to_.allocations.push_back({b.address, b.requested, b.size, streams[i],
                                 later ? to_.events : Allocation::before, freed, to_.events,
                                 b.stack, 0, 0, 0, true});
    }
  }

  /// Addresses that events gave or took, as ranges that do not touch.
  [[nodiscard]] std::vector<Range> used_addresses() const {
    std::vector<Range> ranges;
    ranges.reserve(all());
    for (const Allocation& a : to_.allocations)
      ranges.push_back({a.address, std::max<std::int64_t>(1, a.requested)});
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.address < b.address; });
    std::size_t kept = 0;
    for (const Range& r : ranges) {
      if (kept > 0 && r.address <= ranges[kept - 1].address + ranges[kept - 1].size) {
        Range& last = ranges[kept - 1];
        last.size = std::max(last.size, r.address + r.size - last.address);
      } else {
        ranges[kept++] = r;
      }
    }
    ranges.resize(kept);
    return ranges;
  }

  [[nodiscard]] static bool overlaps(const std::vector<Range>& ranges, std::int64_t address,
                                     std::int64_t size) {
    const auto after = std::partition_point(ranges.begin(), ranges.end(), [&](const Range& r) {
      return r.address + r.size <= address;
    });
    return after != ranges.end() && after->address < address + size;
  }

  [[nodiscard]] std::size_t all() const { return to_.allocations.size(); }

  const Snapshot& snapshot_;
  int device_;
  History& to_;
  std::unordered_map<std::int64_t, Index> open_;  ///< not reusable yet, by address
};

}  // namespace

std::int64_t block_size(std::int64_t requested, const AllocatorSettings& settings) {
  constexpr std::int64_t least = 512;
  if (requested < least) return least;
  const std::int64_t divisions = divisions_of(requested, settings);
  if (divisions > 1 && requested > least * divisions)
    return round_to_division(requested, divisions);
  return (requested + least - 1) / least * least;
}

History history_of(const Snapshot& snapshot, int device) {
  History history;
  history.device = device;
  const auto d = static_cast<std::size_t>(device);
  static const std::deque<Event> none;
  const std::deque<Event>& trace = d < snapshot.traces.size() ? snapshot.traces[d] : none;
  history.events = static_cast<std::int64_t>(trace.size());
  Pairing(snapshot, device, history).run(trace);
  std::stable_sort(history.allocations.begin(), history.allocations.end(),
                   [](const Allocation& a, const Allocation& b) {
                     return a.born != b.born ? a.born < b.born : a.address < b.address;
                   });
  history.ranges = ranges_at_begin(snapshot, device, trace);
  for (const Range& r : history.ranges) history.began_reserved += r.size;
  find_block_sizes(history, trace, snapshot.settings);
  for (const Allocation& a : history.allocations)
    if (a.born == Allocation::before && a.freed != Allocation::before)
      history.began_allocated += a.size;
  return history;
}

std::vector<int> devices(const Snapshot& snapshot) {
  std::vector<int> found;
  for (std::size_t d = 0; d < snapshot.traces.size(); ++d)
    if (!snapshot.traces[d].empty()) found.push_back(static_cast<int>(d));
  for (const Segment& s : snapshot.segments)
    if (std::find(found.begin(), found.end(), s.device) == found.end()) found.push_back(s.device);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace ac_advisor::snapshot
