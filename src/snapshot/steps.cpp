// Where steps begin and end: told by record_function's annotations, by the optimizer's and
// zero_grad's stacks, by a forward that follows a backward, or else by sizes that repeat.
#include "steps.hpp"

#include <algorithm>
#include <string_view>

#include "stack_marks.hpp"

namespace ac_advisor::snapshot {
namespace {

bool is_memory(const Event& e) {
  return e.action == Action::alloc || e.action == Action::free_requested ||
         e.action == Action::free_completed;
}

/// Phases by stacks. A stack without frames is of one of autograd's own threads, where other events
/// have stacks; a free has the phase of what went before it unless its own stack says more.
std::vector<Phase> phases_of(const std::deque<Event>& trace,
                             const std::vector<std::uint16_t>& marks) {
  std::vector<Phase> phases;
  phases.reserve(trace.size());
  Phase now = Phase::setup;
  for (const Event& e : trace) {
    const std::uint16_t m = marks[e.stack];
    if (!is_memory(e)) {
      phases.push_back(now);
      continue;
    }
    const bool alloc = e.action == Action::alloc;
    if ((m & in_optimizer) != 0)
      now = Phase::optimizer;
    else if ((m & in_zero_grad) != 0)
      now = Phase::setup;
    else if ((m & in_recompute) != 0)
      now = Phase::recompute;
    else if ((m & in_backward) != 0 || (alloc && e.stack == 0))
      now = Phase::backward;
    else if (alloc && (m & in_loss) != 0)
      now = Phase::loss;
    else if (alloc && (m & in_module_call) != 0)
      now = Phase::forward;
    else if (alloc && now != Phase::forward && now != Phase::loss)
      now = Phase::setup;
    phases.push_back(now);
  }
  return phases;
}

bool in_a_backward(Phase p) { return p == Phase::backward || p == Phase::recompute; }

/// A forward, or whatever a loop does before it, that begins after a backward and, where there is
/// any evidence of an optimizer, after some of that: what is allocated between the two is of the
/// same step.
std::vector<std::int64_t> after_backward(const std::deque<Event>& trace,
                                         const std::vector<Phase>& phases,
                                         const std::vector<std::int64_t>& evidence) {
  std::vector<std::int64_t> found;
  std::size_t at = 0;
  bool backward = false, stepped = evidence.empty();
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto event = static_cast<std::int64_t>(i);
    for (; at < evidence.size() && evidence[at] < event; ++at) stepped = true;
    if (in_a_backward(phases[i])) {
      backward = true;
    } else if (backward && stepped && phases[i] != Phase::optimizer &&
               trace[i].action == Action::alloc) {
      found.push_back(event);
      backward = false;
      stepped = evidence.empty();
    }
  }
  return found;
}

/// Stretches of events [begin, end) inside of the annotations whose names begin so.
std::vector<std::pair<std::int64_t, std::int64_t>> annotated(const Snapshot& snapshot, int device,
                                                             const std::deque<Event>& trace,
                                                             std::string_view name) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  if (trace.empty() || trace.front().time_us == 0) return found;
  std::vector<const Annotation*> ours;
  for (const Annotation& a : snapshot.annotations)
    if (a.name.starts_with(name) && a.device == device) ours.push_back(&a);
  std::stable_sort(ours.begin(), ours.end(), [](const Annotation* a, const Annotation* b) {
    return a->time_us < b->time_us;
  });
  const auto first_at = [&](std::int64_t time) {
    return std::partition_point(trace.begin(), trace.end(),
                                [&](const Event& e) { return e.time_us < time; }) -
           trace.begin();
  };
  std::int64_t begin = -1;
  for (const Annotation* a : ours) {
    if (a->start) {
      begin = first_at(a->time_us);
    } else if (begin >= 0) {
      found.emplace_back(begin, first_at(a->time_us + 1));
      begin = -1;
    }
  }
  return found;
}

void mark_optimizer(const std::vector<std::pair<std::int64_t, std::int64_t>>& stretches,
                    std::vector<Phase>& phases) {
  for (const auto& [begin, end] : stretches)
    std::fill(phases.begin() + begin, phases.begin() + end, Phase::optimizer);
}

/// The first allocation after each of the stretches.
std::vector<std::int64_t> allocations_after(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& stretches,
    const std::deque<Event>& trace) {
  std::vector<std::int64_t> found;
  for (const auto& [begin, end] : stretches) {
    auto i = static_cast<std::size_t>(end);
    while (i < trace.size() && trace[i].action != Action::alloc) ++i;
    if (i < trace.size()) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

/// The shortest period of the last allocations' sizes that covers nearly as much of the history as
/// any: 0 where nothing repeats. The Z-function of the sizes, newest first.
std::size_t period_of(const std::vector<std::int64_t>& sizes) {
  const std::size_t n = sizes.size();
  std::vector<std::size_t> z(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && sizes[z[i]] == sizes[i + z[i]]) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  std::size_t most = 0;
  for (std::size_t p = 4; p < n; ++p)
    if (z[p] >= p) most = std::max(most, p + z[p]);
  for (std::size_t p = 4; p < n; ++p)
    if (z[p] >= p && (p + z[p]) * 10 >= most * 9) return p;
  return 0;
}

/// Borders by period: in each period the event after which least is live.
std::vector<std::int64_t> periodic(const std::deque<Event>& trace,
                                   const std::vector<std::int64_t>& live, std::size_t* period) {
  std::vector<std::int64_t> sizes, at;
  for (std::size_t i = trace.size(); i-- > 0;)
    if (trace[i].action == Action::alloc) {
      sizes.push_back(trace[i].size);
      at.push_back(static_cast<std::int64_t>(i));
    }
  *period = period_of(sizes);
  std::vector<std::int64_t> borders;
  if (*period == 0) return borders;
  const std::int64_t last = static_cast<std::int64_t>(trace.size());
  // The place in the newest period where least is live is the border of all of them.
  std::size_t offset = 0;
  for (std::size_t k = 1; k < *period; ++k)
    if (live[static_cast<std::size_t>(std::max<std::int64_t>(0, at[k] - 1))] <
        live[static_cast<std::size_t>(std::max<std::int64_t>(0, at[offset] - 1))])
      offset = k;
  for (std::size_t k = offset; k < at.size(); k += *period) borders.push_back(at[k]);
  std::reverse(borders.begin(), borders.end());
  // Before the sizes repeat, the periods are not steps: those of the tail are.
  std::size_t covered = *period;
  while (covered < sizes.size() && sizes[covered] == sizes[covered - *period]) ++covered;
  const std::int64_t first = at[covered - 1];
  std::erase_if(borders, [&](std::int64_t b) { return b < first || b == last; });
  return borders;
}

/// Without stacks: what rises is forward, what falls is backward.
void phases_by_curve(const std::vector<Step>& steps, const std::vector<std::int64_t>& live,
                     std::vector<Phase>& phases) {
  for (const Step& s : steps) {
    const auto begin = live.begin() + s.begin, end = live.begin() + s.end;
    const auto peak = std::max_element(begin, end) - live.begin();
    for (std::int64_t i = s.begin; i < s.end; ++i)
      phases[static_cast<std::size_t>(i)] = !s.complete ? Phase::setup
                                            : i <= peak ? Phase::forward
                                                        : Phase::backward;
  }
}

}  // namespace

Steps find_steps(const Snapshot& snapshot, const History& history,
                 const std::vector<std::uint16_t>& marks, const std::vector<std::int64_t>& live) {
  Steps result;
  const auto d = static_cast<std::size_t>(history.device);
  static const std::deque<Event> none;
  const std::deque<Event>& trace = d < snapshot.traces.size() ? snapshot.traces[d] : none;
  result.from_stacks = std::any_of(trace.begin(), trace.end(), [&](const Event& e) {
    return e.action == Action::alloc && (marks[e.stack] & in_python) != 0;
  });
  const auto optimizer = annotated(snapshot, history.device, trace, "Optimizer.step#");
  const auto zero_grad = annotated(snapshot, history.device, trace, "Optimizer.zero_grad#");
  std::vector<std::int64_t> borders;
  if (result.from_stacks) {
    result.phases = phases_of(trace, marks);
    // Before borders are looked for: what a step replaces is no new step's, whatever its stack
    // says.
    mark_optimizer(optimizer, result.phases);
    std::vector<std::int64_t> evidence;
    for (const auto& [begin, end] : optimizer) evidence.push_back(begin);
    result.how = "a step ends where record_function says that an optimizer's step ended";
    if (evidence.empty()) {
      for (std::size_t i = 0; i < trace.size(); ++i)
        if ((marks[trace[i].stack] & (in_optimizer | in_zero_grad)) != 0)
          evidence.push_back(static_cast<std::int64_t>(i));
      result.how = "a step ends after the stacks of an optimizer's step or zero_grad";
    }
    if (evidence.empty())
      result.how =
          "a step ends where a forward follows a backward: with gradient accumulation these are "
          "micro-batches";
    borders = after_backward(trace, result.phases, evidence);
  } else {
    result.phases.assign(trace.size(), Phase::setup);
    std::size_t period = 0;
    borders = allocations_after(optimizer, trace);
    result.how =
        "no stacks were recorded; a step ends where record_function says that an optimizer's step "
        "ended";
    if (optimizer.empty()) borders = periodic(trace, live, &period);
    if (period > 0)
      result.how = "no stacks were recorded; a step is " + std::to_string(period) +
                   " allocations, whose sizes repeat";
  }
  borders.insert(borders.begin(), 0);
  borders.push_back(history.events);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i)
    if (borders[i] < borders[i + 1]) result.steps.push_back({borders[i], borders[i + 1], false});
  for (std::size_t k = 0; k < result.steps.size(); ++k) {
    Step& s = result.steps[k];
    if (!result.from_stacks) {
      s.complete = k > 0;  // the first has what is before the steps
      continue;
    }
    bool forward = false, backward = false;
    for (std::int64_t i = s.begin; i < s.end; ++i) {
      const Phase p = result.phases[static_cast<std::size_t>(i)];
      if (p == Phase::forward && !backward) forward = true;
      backward = backward || in_a_backward(p);
    }
    s.complete = forward && backward;
  }
  const auto complete = std::count_if(result.steps.begin(), result.steps.end(),
                                      [](const Step& s) { return s.complete; });
  if (complete == 0)
    result.how = trace.empty() ? "no history was recorded, so there are no steps"
                               : "no step was found: neither stacks of a backward nor sizes that "
                                 "repeat";
  if (!result.from_stacks && !result.steps.empty())
    phases_by_curve(result.steps, live, result.phases);
  mark_optimizer(optimizer, result.phases);
  result.in_zero_grad.assign(trace.size(), false);
  for (const auto& [begin, end] : zero_grad)
    std::fill(result.in_zero_grad.begin() + begin, result.in_zero_grad.begin() + end, true);
  for (std::size_t i = 0; i < trace.size(); ++i)
    if ((marks[trace[i].stack] & Mark::in_zero_grad) != 0) result.in_zero_grad[i] = true;
  result.backward_end.assign(trace.size(), 0);
  result.last_alloc.assign(trace.size(), 0);
  std::int64_t end = history.events, last = history.events;
  bool found = false;  // the last allocation of the backward that the walk back is in
  for (std::int64_t i = history.events - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    if (!in_a_backward(result.phases[at])) {
      end = last = i;  // the next backward, going back, ends here
      found = false;
    } else if (!found && trace[at].action == Action::alloc) {
      last = i;
      found = true;
    }
    result.backward_end[at] = end;
    result.last_alloc[at] = last;
  }
  return result;
}

}  // namespace ac_advisor::snapshot
