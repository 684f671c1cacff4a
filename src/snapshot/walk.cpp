#include "walk.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "heap.hpp"

namespace ac_advisor::snapshot {
namespace {

const std::deque<Event>& trace_of(const Snapshot& snapshot, const History& history) {
  static const std::deque<Event> none;
  const auto d = static_cast<std::size_t>(history.device);
  return d < snapshot.traces.size() ? snapshot.traces[d] : none;
}

/// Allocations by the event at which they end.
std::vector<std::uint32_t> by_end(const History& history) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (a.freed >= 0 && a.freed < history.events) order.push_back(static_cast<std::uint32_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
    return history.allocations[x].freed < history.allocations[y].freed;
  });
  return order;
}

bool before_history(const Allocation& a) {
  return a.born == Allocation::before && a.freed != Allocation::before;
}

}  // namespace

Bytes Moment::allocated() const { return std::accumulate(bytes.begin(), bytes.end(), Bytes{0}); }

Walk walk_events(const Snapshot& snapshot, const History& history) {
  const std::deque<Event>& trace = trace_of(snapshot, history);
  Walk w;
  w.live.reserve(trace.size());
  w.reserved.reserve(trace.size());
  Bytes live = history.began_allocated, reserved = history.began_reserved;
  w.peak = live;
  w.peak_reserved = reserved;
  const std::vector<std::uint32_t> ends = by_end(history);
  std::size_t end = 0, born = 0;
  const std::vector<Allocation>& all = history.allocations;
  while (born < all.size() && all[born].born == Allocation::before) ++born;
  std::int64_t i = 0;
  for (const Event& e : trace) {
    for (; end < ends.size() && all[ends[end]].freed == i; ++end) live -= all[ends[end]].size;
    for (; born < all.size() && all[born].born == i; ++born) live += all[born].size;
    if (e.action == Action::segment_alloc || e.action == Action::segment_map) reserved += e.size;
    if (e.action == Action::segment_free || e.action == Action::segment_unmap) reserved -= e.size;
    if (live > w.peak) {
      w.peak = live;
      w.peak_event = i;
    }
    if (reserved > w.peak_reserved) {
      w.peak_reserved = reserved;
      w.peak_reserved_event = i;
    }
    w.live.push_back(live);
    w.reserved.push_back(reserved);
    ++i;
  }
  if (history.ended_allocated > w.peak) {  // grew after the last recorded event
    w.peak = history.ended_allocated;
    w.peak_event = history.events;
  }
  if (history.ended_reserved > w.peak_reserved) {
    w.peak_reserved = history.ended_reserved;
    w.peak_reserved_event = history.events;
  }
  return w;
}

std::vector<const Allocation*> live_at(const History& history, std::int64_t event) {
  std::vector<const Allocation*> live;
  for (const Allocation& a : history.allocations) {
    const bool there = event < 0 ? before_history(a) : a.born <= event && a.freed > event;
    // In the final state only what it has: what it does not have was freed unseen.
    const bool at_end = a.in_final_state && a.freed >= history.events;
    if (event >= history.events ? at_end : there) live.push_back(&a);
  }
  return live;
}

std::vector<Range> ranges_at(const Snapshot& snapshot, const History& history, std::int64_t event) {
  std::map<std::int64_t, Range> ranges;
  if (event >= history.events) {
    std::vector<Range> list;
    for (const Segment& s : snapshot.segments)
      if (s.device == history.device)
        list.push_back({s.address, s.size, s.stream, s.large, s.expandable});
    return list;
  }
  for (const Range& r : history.ranges) ranges[r.address] = r;
  std::int64_t i = 0;
  for (const Event& e : trace_of(snapshot, history)) {
    if (i++ > event) break;
    switch (e.action) {
      case Action::segment_alloc:
      case Action::segment_map:
        ranges[e.address] = {e.address, e.size, e.stream, e.size != (2 << 20),
                             e.action == Action::segment_map};
        break;
      case Action::segment_free:
        ranges.erase(e.address);
        break;
      case Action::segment_unmap:
        take_out(ranges, e.address, e.size);
        break;
      default:
        break;
    }
  }
  std::vector<Range> list;
  for (const auto& [address, r] : ranges) {
    // Mapped ranges that touch are one: blocks may cross from one to the next.
    if (!list.empty() && r.expandable && list.back().expandable && list.back().stream == r.stream &&
        list.back().address + list.back().size == r.address)
      list.back().size += r.size;
    else
      list.push_back(r);
  }
  return list;
}

std::vector<Moment> moments(const Snapshot& snapshot, const History& history, const Walk& walk,
                            const std::vector<profile::Category>& kinds, std::size_t count) {
  const std::deque<Event>& trace = trace_of(snapshot, history);
  std::vector<Moment> list;
  ByCategory now{};
  const std::vector<Allocation>& all = history.allocations;
  const auto kind = [&](std::size_t i) { return static_cast<std::size_t>(kinds[i]); };
  std::size_t born = 0, end = 0;
  for (; born < all.size() && all[born].born == Allocation::before; ++born)
    if (before_history(all[born])) now[kind(born)] += all[born].size;
  const std::vector<std::uint32_t> ends = by_end(history);
  const std::size_t stretch =
      std::max<std::size_t>(1, (trace.size() + count - 1) / std::max<std::size_t>(1, count));
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto event = static_cast<std::int64_t>(i);
    for (; end < ends.size() && all[ends[end]].freed == event; ++end)
      now[kind(ends[end])] -= all[ends[end]].size;
    for (; born < all.size() && all[born].born == event; ++born) now[kind(born)] += all[born].size;
    const Bytes live = walk.live[i];
    if (i % stretch == 0) {
      list.push_back({event, trace[i].time_us, walk.reserved[i], live, now});
      continue;
    }
    Moment& m = list.back();
    m.lowest = std::min(m.lowest, live);
    m.reserved = std::max(m.reserved, walk.reserved[i]);
    if (live > walk.live[static_cast<std::size_t>(m.event)]) {
      m.event = event;
      m.time_us = trace[i].time_us;
      m.bytes = now;
    }
  }
  return list;
}

}  // namespace ac_advisor::snapshot
