#include "zero3_fetches.hpp"

#include <algorithm>
#include <utility>

namespace ac_advisor::passes {

Zero3Fetches::Zero3Fetches(std::vector<std::int64_t> elements, std::vector<bool> persistent,
                           std::vector<ModuleCall> trace, FetchLimits limits,
                           std::vector<bool> frozen)
    : elements_(std::move(elements)),
      persistent_(std::move(persistent)),
      frozen_(std::move(frozen)),
      limits_(limits),
      status_(elements_.size(), Status::partitioned),
      waits_in_(elements_.size(), -1),
      active_(elements_.size()) {
  frozen_.resize(elements_.size());
  for (std::size_t i = 0; i < elements_.size(); ++i)
    if (persistent_[i]) status_[i] = Status::whole;
  begin(std::move(trace));
}

void Zero3Fetches::begin(std::vector<ModuleCall> trace) {
  trace_ = std::move(trace);
  call_ = live_ = 0;
  passed_.clear();
  queue_.clear();
  uses_.assign(elements_.size(), {});
  fetched_for_.assign(elements_.size(), -1);
  std::int64_t passed = 0;
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    const auto call = static_cast<std::int64_t>(i);
    passed_.push_back(passed);
    for (std::size_t parameter : trace_[i].parameters) {
      queue_.push_back({parameter, call});
      uses_[parameter].push_back(call);
      passed += elements_[parameter];
    }
  }
}

std::vector<FetchAction> Zero3Fetches::fetch(const ModuleCall& call, bool forward,
                                             bool recomputing) {
  Actions actions;
  if (call_ == static_cast<std::int64_t>(trace_.size())) trace_.clear();  // _invalidate_trace
  if (!forward) {
    const auto same = [&](const Entered& e) { return e.call.module == call.module; };
    if (std::none_of(in_backward_.begin(), in_backward_.end(), same))
      in_backward_.push_back({call, {}});
  }
  std::vector<std::size_t> missing;
  for (std::size_t p : call.parameters)
    if (status_[p] == Status::partitioned) missing.push_back(p);
  if (!missing.empty()) gather(std::move(missing), actions);
  for (std::size_t p : call.parameters) {
    activate(p, call.module);
    if (recomputing && frozen_[p] && !in_backward_.empty()) {
      in_backward_.back().recomputed.push_back(p);
      activate(p, in_backward_.back().call.module);
    }
    wait_for(p, actions);
  }
  if (!traced()) return actions;
  take_from_queue(call.parameters);
  prefetch(actions);
  ++call_;
  return actions;
}

void Zero3Fetches::activate(std::size_t parameter, ir::ModulePath module) {
  std::vector<ir::ModulePath>& active = active_[parameter];
  if (std::find(active.begin(), active.end(), module) == active.end()) active.push_back(module);
}

void Zero3Fetches::gather(std::vector<std::size_t> parameters, Actions& actions) {
  std::sort(parameters.begin(), parameters.end());
  const auto buffer = static_cast<std::int32_t>(buffers_.size());
  for (std::size_t p : parameters) {
    status_[p] = Status::in_flight;
    waits_in_[p] = buffer;
    live_ += elements_[p];
  }
  buffers_.push_back({parameters, parameters.size(), false});
  actions.push_back({FetchAction::Kind::gather, buffer, std::move(parameters)});
}

/// The handle completes for all of its parameters; its buffer stays until each was asked for.
void Zero3Fetches::wait_for(std::size_t parameter, Actions& actions) {
  const std::int32_t in = std::exchange(waits_in_[parameter], -1);
  if (in < 0) return;
  Buffer& buffer = buffers_[static_cast<std::size_t>(in)];
  const bool several = buffer.parameters.size() > 1;
  if (!buffer.complete) {
    buffer.complete = true;
    for (std::size_t p : buffer.parameters) status_[p] = Status::whole;
    if (several) actions.push_back({FetchAction::Kind::split, in, buffer.parameters});
  }
  if (--buffer.waiting == 0 && several)
    actions.push_back({FetchAction::Kind::drop, in, buffer.parameters});
}

void Zero3Fetches::take_from_queue(const std::vector<std::size_t>& parameters) {
  std::size_t expected = 0;
  for (std::size_t p : parameters) expected += fetched_for_[p] < call_ ? 1 : 0;
  for (; expected > 0 && !queue_.empty(); --expected) {
    fetched_for_[queue_.front().parameter] = queue_.front().call;
    queue_.pop_front();
  }
}

void Zero3Fetches::prefetch(Actions& actions) {
  const std::int64_t most = std::min(limits_.live - live_, limits_.prefetch);
  std::vector<std::size_t> ahead;
  for (std::int64_t numel = 0; !queue_.empty() && numel < most;) {
    const Use use = queue_.front();
    queue_.pop_front();
    fetched_for_[use.parameter] = std::max(fetched_for_[use.parameter], use.call);
    if (status_[use.parameter] != Status::partitioned) continue;
    if (std::find(ahead.begin(), ahead.end(), use.parameter) != ahead.end()) continue;
    ahead.push_back(use.parameter);
    numel += elements_[use.parameter];
  }
  if (!ahead.empty()) gather(std::move(ahead), actions);
}

/// By one of the calls that follow, as far as max_reuse_distance goes.
bool Zero3Fetches::used_soon(std::size_t parameter) const {
  const std::vector<std::int64_t>& uses = uses_[parameter];
  const auto next = std::lower_bound(uses.begin(), uses.end(), call_);
  if (next == uses.end()) return false;
  const auto at = [&](std::int64_t call) { return passed_[static_cast<std::size_t>(call)]; };
  return at(*next) - at(call_) < limits_.reuse_distance;
}

std::vector<FetchAction> Zero3Fetches::release(const ModuleCall& of, bool forward) {
  Actions actions;
  std::vector<std::size_t> recomputed;
  if (!forward) {
    const auto entered = std::find_if(in_backward_.begin(), in_backward_.end(),
                                      [&](const Entered& e) { return e.call.module == of.module; });
    if (entered != in_backward_.end()) {
      recomputed = std::move(entered->recomputed);
      in_backward_.erase(entered);
    }
  }
  for (std::size_t p : of.parameters) {
    std::erase(active_[p], of.module);
    if (traced() && (persistent_[p] || fetched_for_[p] > call_ || used_soon(p))) continue;
    let_go(p, actions);
  }
  for (std::size_t p : recomputed) {
    std::erase(active_[p], of.module);
    if (!persistent_[p]) let_go(p, actions);
  }
  return actions;
}

std::vector<FetchAction> Zero3Fetches::end_backward() {
  Actions actions;
  while (!in_backward_.empty()) {
    const Entered left = std::move(in_backward_.back());
    in_backward_.pop_back();
    for (const auto* parameters : {&left.call.parameters, &left.recomputed})
      for (std::size_t p : *parameters) {
        std::erase(active_[p], left.call.module);
        if (!persistent_[p]) let_go(p, actions);
      }
  }
  return actions;
}

void Zero3Fetches::let_go(std::size_t parameter, Actions& actions) {
  if (status_[parameter] != Status::whole || !active_[parameter].empty()) return;
  status_[parameter] = Status::partitioned;
  live_ -= elements_[parameter];
  actions.push_back({FetchAction::Kind::free, -1, {parameter}});
}

}  // namespace ac_advisor::passes
