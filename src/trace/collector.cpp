#include "trace/collector.hpp"

#include <algorithm>

#include "trace/kernel_kinds.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_name = 512;
constexpr std::size_t max_recomputed = 16384;
constexpr std::uint32_t no_op = 0xFFFFFFFF;

std::uint32_t slice_of(const RangeTree::Node& node) {
  return static_cast<std::uint32_t>(node.window) * static_cast<std::uint32_t>(phase_names.size()) +
         static_cast<std::uint32_t>(node.phase);
}

bool has_work(const Work& work) {
  return work.launches + work.kernels + work.graphs + work.copies + work.memsets + work.dispatches >
         0;
}

template <typename T>
bool later(const T& a, const T& b) {
  return a.start > b.start;
}

}  // namespace

void add(Work& total, const Work& part) {
  static constexpr std::int64_t Work::*sums[] = {
      &Work::launches,     &Work::kernels,        &Work::kernel_ns,     &Work::captured_kernels,
      &Work::captured_ns,  &Work::copies,         &Work::copy_ns,       &Work::copy_bytes,
      &Work::memsets,      &Work::memset_ns,      &Work::busy_ns,       &Work::idle_ns,
      &Work::memset_bytes, &Work::long_gaps,      &Work::long_gap_ns,   &Work::graphs,
      &Work::idle_host_ns, &Work::idle_kernel_ns, &Work::idle_other_ns, &Work::dispatches};
  for (const auto sum : sums) add_to(total.*sum, part.*sum);
  total.longest_gap_ns = std::max(total.longest_gap_ns, part.longest_gap_ns);
}

std::uint32_t Collector::name_id(std::string_view name) {
  const std::string_view key = name.substr(0, max_name);
  if (const auto found = name_ids_.find(key); found != name_ids_.end()) return found->second;
  if (names_.size() == max_kernels) return max_kernels;  // "[others]"
  const auto id = static_cast<std::uint32_t>(names_.size());
  names_.emplace_back(key);
  communicates_.push_back(kind_of(key) == KernelKind::communication);
  name_ids_.emplace(key, id);
  return id;
}

Work& Collector::of(State& state, NodeId node) {
  if (node >= state.by_node.size()) state.by_node.resize(node + 1);
  return state.by_node[node];
}

void Collector::launch(NodeId node) { add_to(of(state_, node).launches, 1); }

void Collector::op(std::string_view name, NodeId node, std::int64_t host_ns, bool dispatch) {
  if (dispatch) add_to(of(state_, node).dispatches, 1);
  OpTotal& total = ops_[{name_id(name), slice_of(ranges_.node(node))}];
  add_to(total.calls, 1);
  add_to(total.host_ns, host_ns);
}

void Collector::add_kernel(const DeviceWork& item, NodeId node, std::uint32_t name,
                           std::int64_t ns) {
  const bool graph = item.kind == DeviceWork::Kind::graph;
  const bool captured = graph || item.captured;
  Work& work = of(state_, node);
  add_to(work.kernel_ns, ns);
  add_to(work.captured_kernels, captured && !graph ? 1 : 0);
  add_to(work.captured_ns, captured ? ns : 0);
  const RangeTree::Node& place = ranges_.node(node);
  KernelTotal& kernel = kernels_[{name, slice_of(place)}];
  add_to(kernel.count, 1);
  add_to(kernel.ns, ns);
  add_to(kernel.captured, captured ? 1 : 0);
  kernel.longest_ns = std::max(kernel.longest_ns, ns);
  if (name < communicates_.size() && communicates_[name]) {
    Communication& total = communication_[static_cast<std::size_t>(place.window)];
    add_to(total.kernels, 1);
    add_to(total.ns, ns);
  }
  const bool again = place.phase == Phase::recompute;
  if (item.op.empty() && !again) return;
  const std::uint32_t op = item.op.empty() ? no_op : name_id(item.op);
  if (!item.op.empty()) {
    OpTotal& total = ops_[{op, slice_of(place)}];
    add_to(total.kernels, 1);
    add_to(total.kernel_ns, ns);
  }
  if (!again) return;
  // Where the table is full, the op is no longer told.
  const bool full = recomputed_.size() >= max_recomputed && !recomputed_.contains({node, op});
  RecomputedTotal& total = recomputed_[{full ? RangeTree::root : node, full ? max_kernels : op}];
  add_to(total.kernels, 1);
  add_to(total.kernel_ns, ns);
}

void Collector::add_copy(std::uint32_t name, NodeId node, std::int64_t ns, std::int64_t bytes) {
  CopyTotal& total = copies_[{name, static_cast<std::uint32_t>(ranges_.node(node).window)}];
  add_to(total.count, 1);
  add_to(total.ns, ns);
  add_to(total.bytes, bytes);
}

void Collector::work(const DeviceWork& item, NodeId node) {
  const std::int64_t start = std::clamp(item.start, -clock_limit, clock_limit);
  const std::int64_t end = std::clamp(item.end, start, clock_limit);
  const std::int64_t bytes = std::max<std::int64_t>(item.bytes, 0);
  const std::uint32_t name = name_id(item.name);
  Work& work = of(state_, node);
  switch (item.kind) {
    case DeviceWork::Kind::kernel:
      add_to(work.kernels, 1);
      add_kernel(item, node, name, end - start);
      break;
    case DeviceWork::Kind::graph:
      add_to(work.graphs, 1);
      add_kernel(item, node, name, end - start);
      break;
    case DeviceWork::Kind::copy:
      add_to(work.copies, 1);
      add_to(work.copy_ns, end - start);
      add_to(work.copy_bytes, bytes);
      add_copy(name, node, end - start, bytes);
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
  const bool kernel = item.kind == DeviceWork::Kind::kernel || item.kind == DeviceWork::Kind::graph;
  heap.push_back({start, end, node, name, kernel, item.launched});
  std::push_heap(heap.begin(), heap.end(), later<Pending>);
  if (heap.size() <= reorder_window) return;
  std::pop_heap(heap.begin(), heap.end(), later<Pending>);
  const Pending earliest = heap.back();
  heap.pop_back();
  place(state_, item.device, timeline, earliest);
}

void Collector::place(State& state, std::int64_t device, Timeline& timeline,
                      const Pending& item) const {
  Work& work = of(state, item.node);
  if (item.kernel) {
    // What all kernels cover, less what those cover that compute: communication that nothing hides.
    const auto covers = [&](std::int64_t& until) {
      const std::int64_t more = std::max<std::int64_t>(item.end - std::max(item.start, until), 0);
      until = std::max(until, item.end);
      return more;
    };
    const bool communicates = item.name < communicates_.size() && communicates_[item.name];
    std::int64_t& exposed =
        state.exposed_ns[static_cast<std::size_t>(ranges_.node(item.node).window)];
    add_to(exposed, covers(timeline.kernels_until));
    if (!communicates) add_to(exposed, -covers(timeline.compute_until));
  }
  if (!timeline.started) {
    timeline.started = true;
    timeline.busy_until = item.start;
  } else if (const std::int64_t gap = item.start - timeline.busy_until; gap > 0) {
    add_to(work.idle_ns, gap);
    if (item.launched)
      add_to(*item.launched >= timeline.busy_until ? work.idle_host_ns
             : gap <= queue_gap_ns                 ? work.idle_kernel_ns
                                                   : work.idle_other_ns,
             gap);
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

void Collector::report_ops(Trace& trace) const {
  const auto name_of = [&](std::uint32_t id) {
    return id < names_.size() ? names_[id] : std::string(id == no_op ? "" : "[others]");
  };
  for (const auto& [key, total] : ops_) {
    OpTotal op = total;
    op.name = name_of(key.first);
    op.window = static_cast<Window>(key.second / phase_names.size());
    op.phase = static_cast<Phase>(key.second % phase_names.size());
    trace.ops.push_back(std::move(op));
  }
  std::stable_sort(trace.ops.begin(), trace.ops.end(), [](const OpTotal& a, const OpTotal& b) {
    return a.kernel_ns != b.kernel_ns ? a.kernel_ns > b.kernel_ns : a.host_ns > b.host_ns;
  });
  for (const auto& [key, total] : recomputed_)
    trace.recomputed.push_back({ranges_.path(key.first), name_of(key.second),
                                ranges_.node(key.first).window, total.kernels, total.kernel_ns});
  std::stable_sort(
      trace.recomputed.begin(), trace.recomputed.end(),
      [](const RecomputedTotal& a, const RecomputedTotal& b) { return a.kernel_ns > b.kernel_ns; });
  for (const auto& [key, total] : copies_)
    trace.copies.push_back(
        {name_of(key.first), static_cast<Window>(key.second), total.count, total.ns, total.bytes});
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
  trace.communication = communication_;
  for (std::size_t w = 0; w < window_names.size(); ++w)
    trace.communication[w].exposed_ns =
        std::clamp<std::int64_t>(state.exposed_ns[w], 0, communication_[w].ns);
  report_ops(trace);
  std::erase_if(trace.devices, [&](const Device& d) { return !state.devices.contains(d.id); });
  for (const auto& [id, timeline] : state.devices)
    if (std::none_of(trace.devices.begin(), trace.devices.end(),
                     [id = id](const Device& d) { return d.id == id; }))
      trace.devices.push_back({.id = id});
  std::array<Work, phase_names.size() * window_names.size()> slices;
  for (NodeId id = 0; id < ranges_.size(); ++id) {
    const RangeTree::Node& node = ranges_.node(id);
    const Work work = id < state.by_node.size() ? state.by_node[id] : Work{};
    const bool worked = has_work(work);
    if (worked) add(slices[slice_of(node)], work);
    if (worked || node.entered > 0)
      trace.ranges.push_back(
          {ranges_.path(id), node.window, node.phase, node.entered, node.host_ns, work});
  }
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (const Work& work = slices[i]; has_work(work))
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
