#include "trace/timeline.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "trace/open_ranges.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::int64_t Attribution::*attributed_by[] = {
    &Attribution::own_range, &Attribution::other_thread, &Attribution::thread_name,
    &Attribution::none};

std::uint8_t index_of(std::int64_t Attribution::*by) {
  return static_cast<std::uint8_t>(
      std::find(std::begin(attributed_by), std::end(attributed_by), by) -
      std::begin(attributed_by));
}

/// Something starts within the interval. `events` are sorted by their start.
template <typename Events, typename Counts>
bool any_within(const Events& events, const Timeline::Interval& in, const Counts& counts) {
  auto event = std::lower_bound(events.begin(), events.end(), in.start,
                                [](const auto& e, std::int64_t time) { return e.start < time; });
  for (; event != events.end() && event->start < in.end; ++event)
    if (counts(*event)) return true;
  return false;
}

/// A profiler that stops after its last step leaves one that launches nothing (torch 2.11), and so
/// do loops that look whether there is more data. On a CPU, a step runs ops.
bool is_empty_step(const Timeline& t, const Timeline::Interval& step, bool launches) {
  if (launches) return !any_within(t.calls, step, [](const auto& c) { return c.launch; });
  if (!t.work.empty()) return !any_within(t.work, step, [](const auto&) { return true; });
  return !any_within(t.intervals, step, [](const auto& i) { return i.op; });
}

void note_unplaced(Trace& trace) {
  const std::int64_t kernels = trace.kernel_count();
  if (!trace.launches_recorded && kernels > 0)
    trace.notes.push_back(
        "launches: none in this trace, so that no kernel has a range or a phase, and idling no "
        "cause");
  if (trace.launches_recorded && trace.unlinked_work > 0)
    trace.notes.push_back(std::to_string(trace.unlinked_work) +
                          " kernels, copies and memsets were launched outside the trace: they are "
                          "in no range, and in no step");
  std::int64_t graphs = 0;
  for (const Slice& slice : trace.slices) graphs += slice.work.graphs;
  if (graphs > 0)
    trace.notes.push_back(
        std::to_string(graphs) +
        " executions of CUDA graphs were recorded as a whole: their time is counted, their kernels "
        "are not; profile with nsys --cuda-graph-trace=node to have them");
}

}  // namespace

std::uint32_t Names::id(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(names_.size());
  names_.push_back(&ids_.emplace(name, id).first->first);
  return id;
}

std::uint16_t Numbers::index(std::int64_t number) {
  if (const auto found = indices_.find(number); found != indices_.end()) return found->second;
  constexpr std::size_t most = std::numeric_limits<std::uint16_t>::max();
  if (numbers_.size() == most) return static_cast<std::uint16_t>(most - 1);
  const auto index = static_cast<std::uint16_t>(numbers_.size());
  numbers_.push_back(number);
  indices_.emplace(number, index);
  return index;
}

bool is_launch(std::string_view call) {
  return call.find("Launch") != std::string_view::npos &&
         call.find("HostFunc") == std::string_view::npos;
}

bool is_graph_launch(std::string_view call) {
  return call.find("GraphLaunch") != std::string_view::npos;
}

bool is_autograd_thread(std::string_view name) {
  return name.find("pt_autograd") != std::string_view::npos;
}

void Timeline::interval(std::int64_t start, std::int64_t end, std::int64_t thread,
                        std::string_view name, bool op, bool recorded,
                        std::optional<std::int64_t> sequence) {
  const bool numbered = sequence && *sequence >= 0 && *sequence < std::int64_t{no_sequence};
  intervals.push_back(
      {start, end, names.id(name), numbered ? static_cast<std::uint32_t>(*sequence) : no_sequence,
       static_cast<std::uint32_t>(intervals.size()), threads.index(thread), op, recorded});
}

void Timeline::call(std::int64_t start, std::int64_t thread, std::uint64_t correlation,
                    std::string_view name) {
  calls.push_back({.start = start,
                   .correlation = correlation,
                   .thread = threads.index(thread),
                   .launch = is_launch(name),
                   .graph = is_graph_launch(name)});
}

void Timeline::totals(Trace& trace) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    if (a.start != b.start) return a.start < b.start;
    return a.end != b.end ? a.end > b.end : a.order < b.order;
  });
  // No stable sort, which would need as much memory again.
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
    return std::tie(a.start, a.correlation) < std::tie(b.start, b.correlation);
  });
  std::sort(work.begin(), work.end(), [](const Work& a, const Work& b) {
    return std::tie(a.start, a.end, a.correlation, a.name) <
           std::tie(b.start, b.end, b.correlation, b.name);
  });

  RangeTree tree;
  Collector collector(tree);
  OpenRanges open(*this, tree, collector);
  const bool launches =
      std::any_of(calls.begin(), calls.end(), [](const Call& c) { return c.launch; });
  std::vector<std::uint8_t> steps(names.size());
  for (std::uint32_t name = 0; name < names.size(); ++name) steps[name] = names_step(names[name]);
  auto next = intervals.begin();
  const auto open_until = [&](std::int64_t time) {
    for (; next != intervals.end() && next->start <= time; ++next)
      if (next->op || steps[next->name] == 0 || !is_empty_step(*this, *next, launches))
        open.open(*next);
  };
  for (Call& call : calls) {
    open_until(call.start);
    const OpenRanges::Place place = open.at(call.thread, call.start);
    call.node = place.node;
    call.by = index_of(place.by);
    call.op = place.op;
  }
  open_until(std::numeric_limits<std::int64_t>::max());
  open.close();
  intervals.clear();
  intervals.shrink_to_fit();

  // The driver's call inside the runtime's has its number: the outer one counts.
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
    return std::tie(a.correlation, a.start) < std::tie(b.correlation, b.start);
  });
  const Call* before = nullptr;
  for (const Call& call : calls) {
    const bool again = before != nullptr && before->correlation == call.correlation;
    if (!again && call.launch) collector.launch(call.node);
    if (!again) before = &call;
  }

  for (const Work& w : work) {
    const auto found = std::lower_bound(
        calls.begin(), calls.end(), w.correlation,
        [](const Call& call, std::uint64_t number) { return call.correlation < number; });
    const bool linked = found != calls.end() && found->correlation == w.correlation;
    const Call* const call = linked ? &*found : nullptr;
    const NodeId node = linked ? call->node : RangeTree::root;
    const bool kernel = w.kind == DeviceWork::Kind::kernel || w.kind == DeviceWork::Kind::graph;
    if (kernel) ++(trace.attribution.*(linked ? attributed_by[call->by] : &Attribution::none));
    if (!linked) ++trace.unlinked_work;
    DeviceWork item{w.kind,
                    names[w.name],
                    w.start,
                    w.end,
                    devices[w.device],
                    w.bytes,
                    w.captured || (linked && call->graph),
                    std::nullopt,
                    {}};
    if (linked) item.launched = call->start;
    if (linked && call->op != no_name) item.op = names[call->op];
    collector.work(item, node);
    if (kernel && keep_stretches)
      stretches.push_back({w.start, w.end, devices[w.device], tree.node(node).phase});
  }
  trace.pid = pid;
  trace.launches_recorded = launches;
  collector.report(trace);
  note_unplaced(trace);
}

}  // namespace ac_advisor::trace
