#include "trace/collector.hpp"

#include <algorithm>

#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_name = 512;

std::uint32_t slice_of(const RangeTree::Node& node) {
  return static_cast<std::uint32_t>(node.window) * static_cast<std::uint32_t>(phase_names.size()) +
         static_cast<std::uint32_t>(node.phase);
}

template <typename T>
bool later(const T& a, const T& b) {
  return a.start > b.start;
}

}  // namespace

void add(Work& total, const Work& part) {
  static constexpr std::int64_t Work::*sums[] = {
      &Work::launches,     &Work::kernels,   &Work::kernel_ns,  &Work::captured_kernels,
      &Work::captured_ns,  &Work::copies,    &Work::copy_ns,    &Work::copy_bytes,
      &Work::memsets,      &Work::memset_ns, &Work::busy_ns,    &Work::idle_ns,
      &Work::memset_bytes, &Work::long_gaps, &Work::long_gap_ns};
  for (const auto sum : sums) add_to(total.*sum, part.*sum);
  total.longest_gap_ns = std::max(total.longest_gap_ns, part.longest_gap_ns);
}

std::uint32_t Collector::name_id(std::string_view name) {
  std::string key(name.substr(0, max_name));
  if (const auto found = name_ids_.find(key); found != name_ids_.end()) return found->second;
  if (names_.size() == max_kernels) return max_kernels;  // "[others]"
  const auto id = static_cast<std::uint32_t>(names_.size());
  names_.push_back(key);
  name_ids_.emplace(std::move(key), id);
  return id;
}

Work& Collector::of(State& state, NodeId node) {
  if (node >= state.by_node.size()) state.by_node.resize(node + 1);
  return state.by_node[node];
}

void Collector::launch(NodeId node) { add_to(of(state_, node).launches, 1); }

void Collector::work(const DeviceWork& item, NodeId node) {
  const std::int64_t start = std::clamp(item.start, -clock_limit, clock_limit);
  const std::int64_t end = std::clamp(item.end, start, clock_limit);
  const std::int64_t bytes = std::max<std::int64_t>(item.bytes, 0);
  const std::uint32_t name = name_id(item.name);
  Work& work = of(state_, node);
  switch (item.kind) {
    case DeviceWork::Kind::kernel: {
      add_to(work.kernels, 1);
      add_to(work.kernel_ns, end - start);
      add_to(work.captured_kernels, item.captured ? 1 : 0);
      add_to(work.captured_ns, item.captured ? end - start : 0);
      KernelTotal& kernel = kernels_[{name, slice_of(ranges_.node(node))}];
      add_to(kernel.count, 1);
      add_to(kernel.ns, end - start);
      add_to(kernel.captured, item.captured ? 1 : 0);
      kernel.longest_ns = std::max(kernel.longest_ns, end - start);
      break;
    }
    case DeviceWork::Kind::copy:
      add_to(work.copies, 1);
      add_to(work.copy_ns, end - start);
      add_to(work.copy_bytes, bytes);
      break;
    case DeviceWork::Kind::memset:
      add_to(work.memsets, 1);
      add_to(work.memset_ns, end - start);
      add_to(work.memset_bytes, bytes);
      break;
  }
  first_start_ = any_ ? std::min(first_start_, start) : start;
  any_ = true;
  Timeline& timeline = state_.devices[item.device];
  std::vector<Pending>& heap = timeline.pending;
  heap.push_back({start, end, node, name});
  std::push_heap(heap.begin(), heap.end(), later<Pending>);
  if (heap.size() <= reorder_window) return;
  std::pop_heap(heap.begin(), heap.end(), later<Pending>);
  const Pending earliest = heap.back();
  heap.pop_back();
  place(state_, item.device, timeline, earliest);
}

void Collector::place(State& state, std::int64_t device, Timeline& timeline, const Pending& item) {
  Work& work = of(state, item.node);
  if (!timeline.started) {
    timeline.started = true;
    timeline.busy_until = item.start;
  } else if (const std::int64_t gap = item.start - timeline.busy_until; gap > 0) {
    add_to(work.idle_ns, gap);
    if (gap > long_gap_ns) {
      add_to(work.long_gaps, 1);
      add_to(work.long_gap_ns, gap);
      const auto longer = [](const Seen& a, const Seen& b) { return a.ns > b.ns; };
      std::vector<Seen>& gaps = state.gaps;
      gaps.push_back({timeline.busy_until, gap, device, item.node, timeline.last_name, item.name});
      std::push_heap(gaps.begin(), gaps.end(), longer);
      if (gaps.size() > gaps_kept) {
        std::pop_heap(gaps.begin(), gaps.end(), longer);
        gaps.pop_back();
      }
    }
    work.longest_gap_ns = std::max(work.longest_gap_ns, gap);
  }
  if (item.end <= timeline.busy_until) return;
  add_to(work.busy_ns, item.end - std::max(item.start, timeline.busy_until));
  timeline.busy_until = item.end;
  timeline.last_name = item.name;
}

void Collector::report(Trace& trace) const {
  State state = state_;
  for (auto& [device, timeline] : state.devices) {
    std::sort_heap(timeline.pending.begin(), timeline.pending.end(), later<Pending>);
    for (auto item = timeline.pending.rbegin(); item != timeline.pending.rend(); ++item)
      place(state, device, timeline, *item);
  }
  const auto name_of = [&](std::uint32_t id) {
    return id < names_.size() ? names_[id] : std::string("[others]");
  };
  trace.steps = ranges_.steps();
  std::erase_if(trace.devices, [&](const Device& d) { return !state.devices.contains(d.id); });
  for (const auto& [id, timeline] : state.devices)
    if (std::none_of(trace.devices.begin(), trace.devices.end(),
                     [id = id](const Device& d) { return d.id == id; }))
      trace.devices.push_back({.id = id});
  std::array<Work, phase_names.size() * window_names.size()> slices;
  for (NodeId id = 0; id < ranges_.size(); ++id) {
    const RangeTree::Node& node = ranges_.node(id);
    const Work work = id < state.by_node.size() ? state.by_node[id] : Work{};
    const bool worked = work.launches + work.kernels + work.copies + work.memsets > 0;
    if (worked) add(slices[slice_of(node)], work);
    if (worked || node.entered > 0)
      trace.ranges.push_back(
          {ranges_.path(id), node.window, node.phase, node.entered, node.host_ns, work});
  }
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (const Work& work = slices[i]; work.launches + work.kernels + work.copies + work.memsets > 0)
      trace.slices.push_back({static_cast<Window>(i / phase_names.size()),
                              static_cast<Phase>(i % phase_names.size()), work});
  for (const auto& [key, total] : kernels_) {
    KernelTotal kernel = total;
    kernel.name = name_of(key.first);
    kernel.window = static_cast<Window>(key.second / phase_names.size());
    kernel.phase = static_cast<Phase>(key.second % phase_names.size());
    trace.kernels.push_back(std::move(kernel));
  }
  std::stable_sort(trace.kernels.begin(), trace.kernels.end(),
                   [](const KernelTotal& a, const KernelTotal& b) { return a.ns > b.ns; });
  std::sort(state.gaps.begin(), state.gaps.end(),
            [](const Seen& a, const Seen& b) { return a.ns > b.ns; });
  for (const Seen& gap : state.gaps) {
    const RangeTree::Node& node = ranges_.node(gap.node);
    trace.gaps.push_back({gap.start - first_start_, gap.ns, gap.device, node.window, node.phase,
                          ranges_.path(gap.node), name_of(gap.before), name_of(gap.after)});
  }
}

}  // namespace ac_advisor::trace
