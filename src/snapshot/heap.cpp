#include "heap.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ac_advisor::snapshot {
namespace {

// c10/core/AllocatorConfig.h: kSmallSize, kSmallBuffer
constexpr std::int64_t small_size = 1 << 20, small_segment = 2 << 20;

/// The free blocks of large segments that are not expandable, at their addresses.
class Heap {
 public:
  explicit Heap(std::int64_t max_split) : max_split_(max_split) {}

  void add(std::int64_t address, std::int64_t size) {
    segments_[address] = size;
    free_[address] = size;
  }
  void remove(std::int64_t address) {
    const auto found = segments_.find(address);
    if (found == segments_.end()) return;
    free_.erase(free_.lower_bound(address), free_.lower_bound(address + found->second));
    segments_.erase(found);
  }

  /// Begin and end of the segment that has the address; {0, 0}: none that is followed here.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> segment(std::int64_t address) const {
    auto found = segments_.upper_bound(address);
    if (found == segments_.begin()) return {0, 0};
    --found;
    const std::int64_t end = found->first + found->second;
    return address < end ? std::pair(found->first, end) : std::pair<std::int64_t, std::int64_t>();
  }

  /// Size of the block that a request of `size` rounded bytes became at `address`.
  std::int64_t allocate(std::int64_t address, std::int64_t size) {
    const auto found = free_.find(address);
    if (found == free_.end() || found->second < size) return size;  // not seen from its begin
    const std::int64_t rest = found->second - size;
    const bool split = rest > small_size && size < max_split_;  // should_split
    const std::int64_t taken = split ? size : found->second;
    free_.erase(found);
    if (split) free_[address + size] = rest;
    return taken;
  }

  /// A block that was there before: the gap behind it is its own where it is too small to be free.
  std::int64_t seed(std::int64_t address, std::int64_t size, std::int64_t next) {
    const std::int64_t gap = next - address - size;
    const std::int64_t taken = gap > 0 && gap <= small_size ? size + gap : size;
    cut(address, taken);
    return taken;
  }

  void cut(std::int64_t address, std::int64_t size) {
    auto found = free_.upper_bound(address);
    if (found == free_.begin()) return;
    --found;
    const std::int64_t begin = found->first, end = found->first + found->second;
    if (end <= address) return;
    free_.erase(found);
    if (begin < address) free_[begin] = address - begin;
    if (end > address + size) free_[address + size] = end - address - size;
  }

  void release(std::int64_t address, std::int64_t size) {
    const auto [begin, end] = segment(address);
    if (end == 0 || free_.contains(address)) return;
    size = std::min(size, end - address);
    auto next = free_.lower_bound(address);
    if (next != free_.end() && next->first == address + size && next->first < end) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first >= begin && previous->first + previous->second == address) {
        previous->second += size;
        return;
      }
    }
    free_[address] = size;
  }

 private:
  std::int64_t max_split_;
  std::map<std::int64_t, std::int64_t> segments_, free_;  ///< address to size
};

bool is_followed(const Range& r) { return !r.expandable && r.large; }

void seed(Heap& heap, History& history, const AllocatorSettings& settings) {
  for (const Range& r : history.ranges)
    if (is_followed(r)) heap.add(r.address, r.size);
  std::vector<Allocation>& all = history.allocations;
  // Those from before are first, by address.
  std::size_t count = 0;
  while (count < all.size() && all[count].born == Allocation::before) ++count;
  for (std::size_t i = 0; i < count; ++i) {
    Allocation& a = all[i];
    const auto [begin, end] = heap.segment(a.address);
    if (a.size > 0) {
      if (end != 0) heap.cut(a.address, a.size);
      continue;
    }
    a.size = block_size(a.requested, settings);
    if (end == 0) continue;
    const std::int64_t next = i + 1 < count && all[i + 1].address < end ? all[i + 1].address : end;
    a.size = heap.seed(a.address, a.size, next);
  }
}

}  // namespace

void take_out(Ranges& ranges, std::int64_t address, std::int64_t size) {
  const std::int64_t end = address + size;
  auto at = ranges.upper_bound(address);
  if (at != ranges.begin()) --at;
  while (at != ranges.end() && at->first < end) {
    const Range r = at->second;
    const std::int64_t r_end = r.address + r.size;
    if (r_end <= address) {
      ++at;
      continue;
    }
    at = ranges.erase(at);
    Range part = r;
    if (r.address < address) {
      part.size = address - r.address;
      ranges[part.address] = part;
    }
    if (r_end > end) {
      part.address = end;
      part.size = r_end - end;
      ranges[end] = part;
    }
  }
}

std::vector<Range> ranges_at_begin(const Snapshot& snapshot, int device,
                                   const std::deque<Event>& trace) {
  Ranges ranges;
  for (const Segment& s : snapshot.segments)
    if (s.device == device)
      ranges[s.address] = {s.address, s.size, s.stream, s.large, s.expandable};
  for (auto e = trace.rbegin(); e != trace.rend(); ++e) {
    switch (e->action) {
      case Action::segment_alloc:
        ranges.erase(e->address);
        break;
      case Action::segment_free:
        ranges[e->address] = {e->address, e->size, e->stream, e->size != small_segment, false};
        break;
      case Action::segment_map:
        take_out(ranges, e->address, e->size);
        break;
      case Action::segment_unmap:
        ranges[e->address] = {e->address, e->size, e->stream, e->size % (20 << 20) == 0, true};
        break;
      default:
        break;
    }
  }
  std::vector<Range> list;
  for (const auto& [address, range] : ranges) list.push_back(range);
  return list;
}

void find_block_sizes(History& history, const std::deque<Event>& trace,
                      const AllocatorSettings& settings) {
  Heap heap(settings.max_split_size > 0 ? settings.max_split_size
                                        : std::numeric_limits<std::int64_t>::max());
  seed(heap, history, settings);
  std::vector<Allocation>& all = history.allocations;
  std::map<std::int64_t, const Allocation*> live;  // that the heap follows, by address
  std::size_t next = 0;
  for (; next < all.size() && all[next].born == Allocation::before; ++next)
    if (heap.segment(all[next].address).second != 0) live[all[next].address] = &all[next];
  std::int64_t i = 0;
  for (const Event& e : trace) {
    if (e.action == Action::alloc) {
      Allocation& a = all[next++];
      const std::int64_t rounded = block_size(a.requested, settings);
      const bool followed = rounded > small_size && heap.segment(a.address).second != 0;
      const std::int64_t size = followed ? heap.allocate(a.address, rounded) : rounded;
      if (a.size == 0) a.size = size;
      if (followed) live[a.address] = &a;
    } else if (e.action == Action::free_requested || e.action == Action::free_completed) {
      const auto found = live.find(e.address);
      if (found != live.end() && found->second->reusable == i) {
        heap.release(found->second->address, found->second->size);
        live.erase(found);
      }
    } else if (e.action == Action::segment_alloc && e.size != small_segment) {
      heap.add(e.address, e.size);
    } else if (e.action == Action::segment_free) {
      heap.remove(e.address);
    }
    ++i;
  }
  for (; next < all.size(); ++next)
    if (all[next].size == 0) all[next].size = block_size(all[next].requested, settings);
}

}  // namespace ac_advisor::snapshot
