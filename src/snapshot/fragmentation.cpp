#include "fragmentation.hpp"

#include <algorithm>
#include <unordered_map>

#include "ac_advisor/simulate/caching_allocator.hpp"
#include "stack_marks.hpp"

namespace ac_advisor::snapshot {
namespace {

constexpr Bytes granule = 2 << 20;  // of device memory (cuMemCreate; cudaMalloc rounds to it too)

/// A segment with what is in it: tensors, and blocks that wait for another stream.
struct Filled {
  Range range;
  std::vector<const Allocation*> blocks;  ///< by address
  Bytes used = 0, largest_free = 0;
};

/// Allocations whose memory cannot be given to another request after an event, by address.
std::vector<const Allocation*> held_at(const History& history, std::int64_t event) {
  std::vector<const Allocation*> held;
  for (const Allocation& a : history.allocations) {
    const bool at_end = event >= history.events;
    if (at_end ? a.in_final_state : a.born <= event && a.reusable > event) held.push_back(&a);
  }
  std::sort(held.begin(), held.end(),
            [](const Allocation* a, const Allocation* b) { return a->address < b->address; });
  return held;
}

std::vector<Filled> filled(const std::vector<Range>& ranges,
                           const std::vector<const Allocation*>& held) {
  std::vector<Filled> list;
  std::size_t at = 0;
  for (const Range& r : ranges) {
    Filled& f = list.emplace_back();
    f.range = r;
    const std::int64_t end = r.address + r.size;
    while (at < held.size() && held[at]->address < r.address) ++at;
    std::int64_t from = r.address;
    for (; at < held.size() && held[at]->address < end; ++at) {
      f.blocks.push_back(held[at]);
      f.used += held[at]->size;
      f.largest_free = std::max(f.largest_free, held[at]->address - from);
      from = std::max(from, held[at]->address + held[at]->size);
    }
    f.largest_free = std::max(f.largest_free, end - from);
  }
  return list;
}

/// The same requests through the replica: what it has reserved at most; empty: it ran out.
Bytes replay(const Snapshot& snapshot, const History& history, bool expandable) {
  using simulate::CachingAllocator;
  CachingAllocator allocator({expandable, 0});
  std::unordered_map<std::int64_t, int> streams;
  const auto stream = [&](std::int64_t s) {
    return streams.try_emplace(s, static_cast<int>(streams.size())).first->second;
  };
  const std::vector<Allocation>& all = history.allocations;
  std::vector<CachingAllocator::Handle> handles(all.size(), CachingAllocator::empty);
  const auto allocate = [&](std::size_t i) {
    handles[i] =
        allocator.allocate(block_size(all[i].requested, snapshot.settings), stream(all[i].stream));
  };
  std::vector<std::uint32_t> ends;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].reusable >= 0 && all[i].reusable < history.events)
      ends.push_back(static_cast<std::uint32_t>(i));
  std::sort(ends.begin(), ends.end(),
            [&](std::uint32_t x, std::uint32_t y) { return all[x].reusable < all[y].reusable; });
  std::size_t born = 0, end = 0;
  for (; born < all.size() && all[born].born == Allocation::before; ++born) allocate(born);
  bool emptied = false;
  std::int64_t i = 0;
  static const std::deque<Event> none;
  const auto d = static_cast<std::size_t>(history.device);
  for (const Event& e : d < snapshot.traces.size() ? snapshot.traces[d] : none) {
    for (; end < ends.size() && all[ends[end]].reusable == i; ++end)
      allocator.free(handles[ends[end]]);
    for (; born < all.size() && all[born].born == i; ++born) allocate(born);
    // empty_cache(), or an allocation that failed at first: both give all that is free back.
    const bool given_back = e.action == Action::segment_free || e.action == Action::segment_unmap;
    if (given_back && !emptied) allocator.empty_cache();
    emptied = given_back;
    ++i;
  }
  return allocator.peak_reserved();
}

/// When an allocation failed last, if one did while most was reserved; else when most was reserved.
std::int64_t judged_event(const Snapshot& snapshot, const History& history, const Walk& walk) {
  std::int64_t event = walk.peak_reserved_event;
  const auto d = static_cast<std::size_t>(history.device);
  if (d >= snapshot.traces.size()) return event;
  std::int64_t i = 0;
  for (const Event& e : snapshot.traces[d]) {
    if (e.action == Action::oom && walk.reserved[static_cast<std::size_t>(i)] == walk.peak_reserved)
      event = i;
    ++i;
  }
  return event;
}

}  // namespace

Fragmentation fragmentation(const Snapshot& snapshot, const History& history, const Walk& walk) {
  Fragmentation f;
  f.peak_reserved = walk.peak_reserved;
  const std::int64_t event = judged_event(snapshot, history, walk);
  for (const Allocation* a : live_at(history, event)) f.allocated_then += a->size;
  f.free_then = f.peak_reserved - f.allocated_then;
  const std::vector<Filled> segments =
      filled(ranges_at(snapshot, history, event), held_at(history, event));
  std::vector<const Filled*> partly;
  for (const Filled& s : segments) {
    f.largest_free = std::max(f.largest_free, s.largest_free);
    if (!s.blocks.empty() && s.used < s.range.size) partly.push_back(&s);
  }
  std::stable_sort(partly.begin(), partly.end(), [](const Filled* a, const Filled* b) {
    return a->range.size - a->used > b->range.size - b->used;
  });
  for (std::size_t i = 0; i < partly.size() && i < 10; ++i) {
    const Filled& s = *partly[i];
    const Allocation* least = *std::min_element(
        s.blocks.begin(), s.blocks.end(),
        [](const Allocation* a, const Allocation* b) { return a->size < b->size; });
    f.pinned.push_back({s.range.address, s.range.stream, s.range.size, s.used,
                        static_cast<std::int64_t>(s.blocks.size()), s.largest_free,
                        site(snapshot, least->stack), least->size});
  }
  if (history.allocations.empty()) {
    f.not_replayed = "nothing was allocated";
  } else if (std::any_of(snapshot.segments.begin(), snapshot.segments.end(), [&](const Segment& s) {
               return s.device == history.device && (s.pool[0] != 0 || s.pool[1] != 0);
             })) {
    f.not_replayed = "private pools (CUDA graphs, MemPool) are not in the allocator's replica";
  } else {
    f.replayed_reserved = replay(snapshot, history, false);
    f.replayed_expandable = replay(snapshot, history, true);
  }
  return f;
}

std::vector<OutOfMemory> out_of_memory(const Snapshot& snapshot, const History& history,
                                       const Walk& walk) {
  std::vector<OutOfMemory> list;
  static const std::deque<Event> none;
  const auto d = static_cast<std::size_t>(history.device);
  std::int64_t i = -1;
  for (const Event& e : d < snapshot.traces.size() ? snapshot.traces[d] : none) {
    ++i;
    if (e.action != Action::oom || list.size() == 20) continue;  // a loop that catches them
    OutOfMemory& o = list.emplace_back();
    o.event = i;
    o.requested = e.size;
    o.device_free = e.address;
    o.allocated = walk.live[static_cast<std::size_t>(i)];
    o.reserved = walk.reserved[static_cast<std::size_t>(i)];
    o.cached = o.reserved - o.allocated;
    for (const Filled& f : filled(ranges_at(snapshot, history, i), held_at(history, i)))
      if (f.range.stream == e.stream) o.largest_free = std::max(o.largest_free, f.largest_free);
    o.would_have_fitted = std::max(o.largest_free, o.device_free / granule * granule);
    o.would_have_fitted_expandable =
        std::max(o.would_have_fitted, (o.device_free + o.cached) / granule * granule);
    o.where = site(snapshot, e.stack);
    o.stack = stack_lines(snapshot, e.stack, 16);
  }
  return list;
}

}  // namespace ac_advisor::snapshot
