#include "trace/open_ranges.hpp"

#include <algorithm>
#include <optional>

namespace ac_advisor::trace {
namespace {

/// The thread whose id is the process's, as Linux numbers the first one, where it opened a range;
/// else the one that opened most.
std::optional<std::uint16_t> main_thread(const Timeline& timeline) {
  std::vector<std::int64_t> ranges(timeline.threads.size());
  for (const Timeline::Interval& i : timeline.intervals) ++ranges[i.thread];
  std::optional<std::uint16_t> best;
  for (std::uint16_t t = 0; t < ranges.size(); ++t) {
    const std::int64_t id = timeline.threads[t];
    if (ranges[t] == 0 || id == Timeline::process_thread) continue;
    if (id == timeline.pid) return t;
    const bool more = !best || ranges[t] > ranges[*best];
    if (more || (ranges[t] == ranges[*best] && id < timeline.threads[*best])) best = t;
  }
  return best;
}

/// Ops that move no data: views of a tensor, and its bare allocation.
bool moves_nothing(std::string_view op) {
  static constexpr std::string_view names[] = {"aten::view",
                                               "aten::_unsafe_view",
                                               "aten::t",
                                               "aten::transpose",
                                               "aten::permute",
                                               "aten::expand",
                                               "aten::slice",
                                               "aten::select",
                                               "aten::unsqueeze",
                                               "aten::squeeze",
                                               "aten::detach",
                                               "aten::detach_",
                                               "aten::alias",
                                               "aten::as_strided",
                                               "aten::narrow",
                                               "aten::split",
                                               "aten::chunk",
                                               "aten::unbind",
                                               "aten::unfold",
                                               "aten::reshape",
                                               "aten::empty",
                                               "aten::empty_like",
                                               "aten::numpy_T",
                                               "aten::empty_strided",
                                               "aten::diagonal",
                                               "aten::split_with_sizes",
                                               "aten::movedim",
                                               "aten::_reshape_alias",
                                               "aten::set_",
                                               "aten::resize_",
                                               "aten::is_nonzero",
                                               "aten::view_as_real",
                                               "aten::view_as_complex",
                                               "aten::lift_fresh",
                                               "detach",
                                               "detach_"};
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

}  // namespace

OpenRanges::OpenRanges(const Timeline& timeline, RangeTree& tree, Collector& collector)
    : timeline_(timeline),
      tree_(tree),
      collector_(collector),
      stacks_(timeline.threads.size()),
      autograd_(timeline.threads.size()) {
  for (std::uint16_t t = 0; t < stacks_.size(); ++t) {
    const auto name = timeline.thread_names.find(timeline.threads[t]);
    autograd_[t] = name != timeline.thread_names.end() && is_autograd_thread(name->second);
  }
  if (const auto main = main_thread(timeline)) others_.push_back(*main);
  for (std::uint16_t t = 0; t < stacks_.size(); ++t)
    if (timeline.threads[t] == Timeline::process_thread) others_.push_back(t);
  for (std::uint32_t name = 0; name < timeline.names.size(); ++name) {
    is_view_.push_back(moves_nothing(timeline.names[name]) ? 1 : 0);
    is_engine_.push_back(names_engine(timeline.names[name]) ? 1 : 0);
  }
}

void OpenRanges::end(Stack& stack) {
  const Open done = stack.back();
  stack.pop_back();
  if (!done.is_op) return;
  const std::int64_t ns = done.end - done.start;
  collector_.op(timeline_.names[done.op], done.node, std::max<std::int64_t>(ns - done.inner_ns, 0),
                !done.has_op && is_view_[done.op] == 0 &&
                    timeline_.names[done.op].find("::") != std::string::npos);
  if (stack.empty()) return;
  stack.back().inner_ns += stack.back().is_op ? ns : 0;
  stack.back().has_op = true;
}

const OpenRanges::Open* OpenRanges::top(std::uint16_t thread, std::int64_t time) {
  Stack& stack = stacks_[thread];
  while (!stack.empty() && stack.back().end <= time) end(stack);
  return stack.empty() ? nullptr : &stack.back();
}

OpenRanges::Place OpenRanges::at(std::uint16_t thread, std::int64_t time) {
  if (const Open* own = top(thread, time)) return {own->node, &Attribution::own_range, own->op};
  Place place;
  for (const std::uint16_t other : others_)
    if (const Open* open = other == thread ? nullptr : top(other, time)) {
      place = {open->node, &Attribution::other_thread, Timeline::no_name};
      break;
    }
  if (!autograd_[thread]) return place;
  const NodeId backward = tree_.autograd_thread(place.node);
  if (backward != place.node) place.by = &Attribution::thread_name;
  place.node = backward;
  return place;
}

NodeId OpenRanges::op_node(const Timeline::Interval& i, NodeId parent) {
  const bool in_module = tree_.node(parent).in_module;
  if (i.recorded && in_module && !tree_.node(parent).in_engine) {
    if (i.sequence != Timeline::no_sequence) forward_[i.sequence] = parent;
    tree_.module_ran(parent);
  }
  // A thread of the engine has no modules of its own: those of the forward op, where known.
  if (!in_module && is_engine_[i.name] != 0)
    if (const auto forward = forward_.find(i.sequence); forward != forward_.end())
      parent = tree_.graft(parent, forward->second);
  return tree_.op(parent, timeline_.names[i.name], i.recorded);
}

void OpenRanges::open(const Timeline::Interval& i) {
  const Place outer = at(i.thread, i.start);
  Open now{i.start, i.end, 0, outer.node, outer.op, i.op, false};
  if (i.op) {
    now.node = op_node(i, outer.node);
    now.op = i.name;
  } else {
    now.node = tree_.enter(outer.node, timeline_.names[i.name]);
    tree_.left(now.node, i.end - i.start);
    if (tree_.is_step(now.node)) forward_.clear();
  }
  stacks_[i.thread].push_back(now);
}

void OpenRanges::close() {
  for (Stack& stack : stacks_)
    while (!stack.empty()) end(stack);
}

}  // namespace ac_advisor::trace
