#include "trainer/calibrate/op_times.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::trainer {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What no op has run in less: two readings of the clock.
constexpr double least_seconds = 1e-9;
/// Ops that the queue is held for at a time, fewer than it takes (1,024 launches), and more than a
/// host needs to issue one with its event: 5 to 25 us of an eager op, of this program the lower
/// part.
constexpr int held_ops = 64;
constexpr double issue_seconds = 25e-6;

}  // namespace

OpTimer::OpTimer(Executor& executor, bool events)
    : executor_(executor),
      backend_(executor.backend()),
      events_(events),
      by_events_(events),
      seconds_(executor.step().program.ops.size(), 0.0) {
  executor_.set_observer([this](ir::OpId op) { observe(op); });
}

OpTimer::~OpTimer() { executor_.set_observer(nullptr); }

void OpTimer::observe(ir::OpId op) {
  if (by_events_) {
    const std::size_t mark = backend_.mark();
    intervals_.push_back({op, last_mark_, mark});
    last_mark_ = mark;
    if (++since_hold_ >= held_ops) hold();
    return;
  }
  const double time = now();
  seconds_[static_cast<std::size_t>(op)] += time - last_;
  last_ = time;
}

/// What is issued behind it has filled the queue before the device comes to it: an event's time is
/// then the device's, not the host's.
void OpTimer::hold() {
  backend_.hold(held_ops * issue_seconds);
  last_mark_ = backend_.mark();
  since_hold_ = 0;
}

double OpTimer::between_marks() {
  backend_.finish();
  backend_.clear_marks();
  if (by_events_) backend_.hold(held_ops * issue_seconds);
  constexpr std::size_t count = 100;
  std::vector<double> readings;
  if (by_events_) {
    for (std::size_t i = 0; i <= count; ++i) backend_.mark();
    backend_.finish();
    for (std::size_t i = 0; i < count; ++i) readings.push_back(backend_.seconds(i, i + 1));
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      begin();
      observe(0);
      readings.push_back(seconds_[0]);
      seconds_[0] = 0;
    }
  }
  return median(readings);
}

void OpTimer::begin() {
  if (!events_) {
    last_ = now();
    return;
  }
  backend_.finish();
  if (by_events_) hold();
  last_ = now();
}

std::vector<double> OpTimer::repeat(const std::function<void()>& run_step, const Effort& effort) {
  overhead_ = between_marks();
  std::vector<std::vector<double>> steps;
  const double start = now();
  for (int i = 0; i <= effort.most; ++i) {
    std::fill(seconds_.begin(), seconds_.end(), 0.0);
    intervals_.clear();
    run_step();
    if (by_events_) backend_.finish();
    for (const Interval& one : intervals_)
      seconds_[static_cast<std::size_t>(one.op)] += backend_.seconds(one.begin, one.end);
    if (i > 0) steps.push_back(seconds_);
    if (i >= effort.least && now() - start > effort.seconds) break;
  }
  std::vector<double> result(seconds_.size());
  std::vector<double> one(steps.size());
  for (std::size_t op = 0; op < result.size(); ++op) {
    for (std::size_t i = 0; i < steps.size(); ++i) one[i] = steps[i][op];
    const auto quartile = one.begin() + static_cast<std::ptrdiff_t>(one.size() / 4);
    std::nth_element(one.begin(), quartile, one.end());
    result[op] = std::max(least_seconds, *quartile - overhead_);
  }
  return result;
}

std::vector<OpTime> OpTimer::measure(const std::function<void()>& run_step, const Effort& effort) {
  by_events_ = events_;
  const std::vector<double> whole = repeat(run_step, effort);
  std::vector<OpTime> times(whole.size());
  for (std::size_t op = 0; op < whole.size(); ++op) times[op].seconds = whole[op];
  if (!events_) return times;
  // Without events the same readings show what the host takes to issue each op.
  by_events_ = false;
  const std::vector<double> issue = repeat(run_step, effort);
  for (std::size_t op = 0; op < whole.size(); ++op) times[op].issue = issue[op];
  return times;
}

void Samples::add(const simulate::Signature& s, OpTime time) {
  samples_[{static_cast<int>(s.kind), static_cast<int>(s.in), static_cast<int>(s.out), s.variant}]
          [s.size]
              .push_back(time);
}

void Samples::add(const ir::Program& program, const std::vector<OpTime>& times) {
  std::map<std::pair<Name, simulate::Size>, std::pair<simulate::Signature, std::vector<OpTime>>>
      alike;
  const double around = simulate::surroundings(program);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ir::Op& op = program.ops[i];
    simulate::Signature s = simulate::signature(program, op);
    // Lists of unequal tensors say nothing of one size; links have no kernel of their own.
    if (!s.pieces.empty() || s.share != 1) continue;
    if (ir::row(op.kind).cost == ir::CostClass::collective) continue;
    if (simulate::has_surroundings(s.kind)) s.size[1] = around;
    auto& [first, list] = alike[{
        {static_cast<int>(s.kind), static_cast<int>(s.in), static_cast<int>(s.out), s.variant},
        s.size}];
    first = s;
    list.push_back(times[i]);
  }
  for (const auto& [name, entry] : alike) {
    OpTime mean;
    for (const OpTime& t : entry.second) {
      mean.seconds += t.seconds / static_cast<double>(entry.second.size());
      mean.issue += t.issue / static_cast<double>(entry.second.size());
    }
    add(entry.first, mean);
  }
}

std::vector<simulate::Series> Samples::series() const {
  std::vector<simulate::Series> list;
  for (const auto& [name, sizes] : samples_) {
    simulate::Series s;
    s.kind = static_cast<ir::OpKind>(name[0]);
    s.in = static_cast<DType>(name[1]);
    s.out = static_cast<DType>(name[2]);
    s.variant = static_cast<std::uint8_t>(name[3]);
    std::vector<double> issues;
    constexpr double alike = 1.05;
    const bool product = simulate::is_product(s.kind);
    std::vector<double> near;  // of the point that is being gathered
    simulate::Size first{-1};
    for (const auto& [size, times] : sizes) {
      if (product || first[0] < 0 || size[0] > first[0] * alike || size[1] > first[1] * alike ||
          size[1] * alike < first[1]) {
        near.clear();
        first = size;
        s.points.push_back({size, 0});
      }
      for (const OpTime& t : times) {
        near.push_back(t.seconds);
        issues.push_back(t.issue);
      }
      s.points.back().seconds = median(near);
    }
    s.issue_seconds = median(issues);
    list.push_back(std::move(s));
  }
  return list;
}

}  // namespace ac_advisor::trainer
