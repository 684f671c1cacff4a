#include "trace/timeline.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace ac_advisor::trace {
namespace {

struct Open {
  std::int64_t end = 0;
  NodeId node = RangeTree::root;
};

/// The ranges that are open on each thread at a time that only goes forward.
class OpenRanges {
 public:
  OpenRanges(const Timeline& timeline, std::int64_t main_thread)
      : timeline_(timeline), main_(main_thread) {}

  struct Place {
    NodeId node = RangeTree::root;
    std::int64_t Attribution::*by = &Attribution::none;
  };
  Place at(std::int64_t thread, std::int64_t time, RangeTree& tree) {
    if (const auto own = top(thread, time)) return {*own, &Attribution::own_range};
    NodeId node = RangeTree::root;
    std::int64_t Attribution::*by = &Attribution::none;
    for (const std::int64_t other : {main_, Timeline::process_thread})
      if (const auto open = other == thread ? std::nullopt : top(other, time)) {
        node = *open;
        by = &Attribution::other_thread;
        break;
      }
    const auto name = timeline_.thread_names.find(thread);
    if (name != timeline_.thread_names.end() && is_autograd_thread(name->second)) {
      const NodeId backward = tree.autograd_thread(node);
      if (backward != node) by = &Attribution::thread_name;
      node = backward;
    }
    return {node, by};
  }
  void open(std::int64_t thread, std::int64_t end, NodeId node) {
    stacks_[thread].push_back({end, node});
  }

 private:
  std::optional<NodeId> top(std::int64_t thread, std::int64_t time) {
    const auto found = stacks_.find(thread);
    if (found == stacks_.end()) return std::nullopt;
    std::vector<Open>& stack = found->second;
    while (!stack.empty() && stack.back().end <= time) stack.pop_back();
    if (stack.empty()) return std::nullopt;
    return stack.back().node;
  }

  const Timeline& timeline_;
  std::int64_t main_;
  std::unordered_map<std::int64_t, std::vector<Open>> stacks_;
};

/// The thread whose id is the process's, as Linux numbers the first one, where it opened a range;
/// else the one that opened most.
std::int64_t main_thread(const Timeline& timeline) {
  std::unordered_map<std::int64_t, std::int64_t> ranges;
  for (const Timeline::Interval& i : timeline.intervals)
    if (i.thread != Timeline::process_thread) ++ranges[i.thread];
  if (ranges.contains(timeline.pid)) return timeline.pid;
  std::int64_t best = timeline.pid, most = 0;
  for (const auto& [thread, count] : ranges)
    if (count > most || (count == most && thread < best)) {
      best = thread;
      most = count;
    }
  return best;
}

}  // namespace

std::uint32_t Names::id(std::string_view name) {
  std::string key(name);
  const auto [found, added] =
      ids_.emplace(std::move(key), static_cast<std::uint32_t>(names_.size()));
  if (added) names_.push_back(found->first);
  return found->second;
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

void Timeline::totals(Trace& trace) {
  std::stable_sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) { return a.start < b.start; });
  std::stable_sort(work.begin(), work.end(),
                   [](const Work& a, const Work& b) { return a.start < b.start; });

  RangeTree tree;
  OpenRanges open(*this, main_thread(*this));
  Collector collector(tree);
  struct Launched {
    OpenRanges::Place place;
    bool graph = false;
  };
  std::unordered_map<std::uint64_t, Launched> launched;
  launched.reserve(calls.size());
  std::size_t next = 0;
  const auto open_until = [&](std::int64_t time) {
    for (; next < intervals.size() && intervals[next].start <= time; ++next) {
      const Interval& i = intervals[next];
      const NodeId parent = open.at(i.thread, i.start, tree).node;
      const NodeId node =
          i.op ? tree.op(parent, names[i.name], i.recorded) : tree.enter(parent, names[i.name]);
      if (!i.op) tree.left(node, i.end - i.start);
      open.open(i.thread, i.end, node);
    }
  };
  for (const Call& call : calls) {
    open_until(call.start);
    const OpenRanges::Place place = open.at(call.thread, call.start, tree);
    const bool added = launched.emplace(call.correlation, Launched{place, call.graph}).second;
    if (added && call.launch) collector.launch(place.node);
  }
  open_until(std::numeric_limits<std::int64_t>::max());

  stretches.reserve(work.size());
  for (const Work& w : work) {
    const auto found = launched.find(w.correlation);
    const auto [place, graph] = found == launched.end() ? Launched{} : found->second;
    if (w.kind == DeviceWork::Kind::kernel) ++(trace.attribution.*place.by);
    collector.work({w.kind, names[w.name], w.start, w.end, w.device, w.bytes, w.captured || graph},
                   place.node);
    if (w.kind == DeviceWork::Kind::kernel)
      stretches.push_back({w.start, w.end, w.device, tree.node(place.node).phase});
  }
  trace.pid = pid;
  collector.report(trace);
}

}  // namespace ac_advisor::trace
