// A step: ops in the order of issue, in segments that a CUDA graph may hold, and its timing. What
// tensors they see is in executor_tensors.cpp.
#include "trainer/executor.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>
#include <utility>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/kernels/kernels.hpp"
#include "trainer/nvtx/nvtx.hpp"
#include "trainer/step_ranges.hpp"

namespace ac_advisor::trainer {
namespace {

using ir::no_id;
using ir::OpId;
using ir::StorageId;
using ir::ValueId;
using Clock = std::chrono::steady_clock;

std::size_t at_index(std::int32_t id) { return static_cast<std::size_t>(id); }

/// The optimizer's first op that reads gradients.
bool updates(const ir::Op& op) {
  return op.phase == ir::Phase::optimizer &&
         (op.kind == ir::OpKind::adamw_fused || op.kind == ir::OpKind::sgd_fused ||
          op.kind == ir::OpKind::foreach) &&
         op.inputs > 0;
}

}  // namespace

Executor::Executor(const passes::StepProgram& step, const passes::Schedule& schedule,
                   const StepConfig& config, Backend& backend, MemoryTracker& tracker,
                   Collectives& collectives)
    : step_(step),
      p_(step.program),
      schedule_(schedule),
      config_(config),
      backend_(backend),
      tracker_(tracker),
      collectives_(collectives),
      mesh_(config.layout, collectives.rank()),
      tensors_(p_.values.size()),
      whole_(p_.storages.size()),
      alive_(p_.storages.size(), false),
      resident_(p_.storages.size(), false),
      begun_(p_.storages.size()) {
  values_begin_.assign(p_.storages.size() + 1, 0);
  // By the storage of the root: a pass may have moved it after the view was made.
  const auto storage = [&](std::size_t v) {
    return at_index(p_.storage_of(static_cast<ValueId>(v)));
  };
  for (std::size_t v = 0; v < p_.values.size(); ++v) ++values_begin_[storage(v) + 1];
  for (std::size_t s = 0; s < p_.storages.size(); ++s) values_begin_[s + 1] += values_begin_[s];
  values_of_.resize(p_.values.size());
  std::vector<std::int32_t> next(values_begin_.begin(), values_begin_.end() - 1);
  for (std::size_t v = 0; v < p_.values.size(); ++v)
    values_of_[at_index(next[storage(v)]++)] = static_cast<ValueId>(v);
  staged_.resize(static_cast<std::size_t>(config.run.grad_accum));
  for (auto& inputs : staged_)
    for (ValueId v : tokens())
      inputs.push_back(backend.staging(sizes(input_shape(v)), scalar_type(p_.value(v).dtype)));
  if (!step.losses.empty())
    losses_ =
        backend.staging({config.run.grad_accum}, scalar_type(p_.value(step.losses.front()).dtype));
}

std::uint64_t Executor::step_key() const {
  return combine(mix(seed_), static_cast<std::uint64_t>(step_number_));
}

std::uint64_t Executor::dropout_op(const ir::Op& op) const {
  const auto place = static_cast<std::uint64_t>(ir::attributes<ir::Dropout>(op).block);
  return flipped_ && op.phase == ir::Phase::recompute ? mix(place) : place;
}

void Executor::set_capture(CudaGraph capture, std::int64_t warm_up) {
  capture_ = capture;
  until_capture_ = warm_up;
  graphs_.clear();
}

void Executor::run_ops(OpId begin, OpId end) {
  const KernelTable& kernels = backend_.kernels();
  StepRanges ranges(counters_, [this] { finish(); });
  bool updating = false;
  for (OpId id = begin; id < end; ++id) {
    const ir::Op& op = p_.op(id);
    if (phases_.empty() || phases_.back().phase != op.phase)
      phases_.push_back({op.phase, capturing_ ? 0 : backend_.mark()});
    ranges.at(op);
    current_ = id;
    tracker_.begin_op(id, op.phase);
    if (updates(op) && before_optimizer_ && !updating) {
      updating = true;
      wait_for_all();  // the hook may read any gradient
      before_optimizer_();
    }
    wait_for_operands(op);
    const Call call(*this, op);
    kernels[static_cast<std::size_t>(op.kind)](call);
    for (std::size_t i = 0; i < op.outputs; ++i)  // what the kernel had no need to touch
      static_cast<void>(output(op, i));
    for (std::size_t i = 0; i < step_.losses.size(); ++i)
      if (p_.value(step_.losses[i]).producer == id)
        losses_[piped() ? static_cast<std::int64_t>(i) : micro_].copy_(tensor(step_.losses[i]),
                                                                       /*non_blocking=*/true);
    count_launches(op);
    tracker_.end_op();
    const std::size_t at = at_index(id);
    for (std::int32_t f = schedule_.free_begin[at]; f < schedule_.free_begin[at + 1]; ++f)
      release(schedule_.freed[at_index(f)]);
    if (observer_) observer_(id);
  }
  ranges.end();
  phases_entered_ += ranges.phases_entered();
  current_ = no_id;
}

/// Of the device, where it tells; else the ops that launch something.
void Executor::count_launches(const ir::Op& op) {
  std::int64_t& launches = launches_[static_cast<std::size_t>(op.phase)];
  if (const auto counted = backend_.launched())
    launches += *counted - std::exchange(launched_, *counted);
  else
    launches += ir::row(op.kind).launches > 0 ? 1 : 0;
}

/// A part of a step: run, or captured as a segment.
void Executor::part(ir::Phase phase, const std::function<void()>& work) {
  if (capturing_ && capture_ == CudaGraph::segments)
    graphs_.push_back(
        {profile::phase_names[static_cast<std::size_t>(phase)], backend_.capture(work)});
  else
    work();
}

/// Segments are the optimizer, and a block's ops of one phase; each has something to launch.
void Executor::run_segments(OpId begin, OpId end) {
  while (begin < end) {
    const bool apart = capturing_ && capture_ == CudaGraph::segments;
    OpId stop = apart ? begin : end;
    bool launches = !apart;
    for (; stop < end; ++stop) {
      const ir::Op& next = p_.op(stop);
      if (launches && !passes::same_segment(p_.op(begin), next)) break;
      launches = launches || ir::row(next.kind).launches > 0;
    }
    const auto work = [this, begin, stop, apart] {
      run_ops(begin, stop);
      if (apart) wait_for_all();  // a graph ends with the streams that it began
    };
    if (launches)
      part(p_.op(begin).phase, work);
    else
      work();
    begin = stop;
  }
}

ir::Shape Executor::input_shape(ValueId v) const {
  ir::Shape shape = p_.value(v).shape;
  if (piped()) shape.set(0, config_.run.batch);
  return shape;
}

std::span<const ValueId> Executor::tokens() const {
  // Those of a pipeline are followed by what it receives into.
  return std::span(step_.inputs)
      .first(piped() ? std::min<std::size_t>(step_.inputs.size(), 2) : step_.inputs.size());
}

/// One micro-batch after another.
void Executor::issue_micro_batches(OpId end) {
  const std::size_t written = step_.micro_begin.size();
  for (std::int64_t micro = 0; micro < config_.run.grad_accum; ++micro) {
    const std::size_t index = passes::written_micro_batch(micro, written, config_.run.grad_accum);
    const OpId begin = step_.micro_begin[index];
    const OpId stop = index + 1 < written ? step_.micro_begin[index + 1] : end;
    const bool again = index == 1 && micro > 1;
    part(ir::Phase::forward, [this, micro, begin, stop, again] {
      micro_ = micro;
      host_.clear();
      for (std::size_t i = 0; i < step_.inputs.size(); ++i)
        tensor(step_.inputs[i])
            .copy_(staged_[static_cast<std::size_t>(micro)][i], /*non_blocking=*/true);
      if (again) drop_made_between(begin, stop);
    });
    run_segments(begin, stop);
  }
}

/// The micro-batches of a pipeline's rank, as its schedule mixes them.
void Executor::issue_pipeline(OpId end) {
  part(ir::Phase::forward, [this] {
    micro_ = 0;
    const auto all = tokens();
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t micro = 0; micro < staged_.size(); ++micro)
        tensor(all[i])
            .narrow(0, static_cast<std::int64_t>(micro) * config_.run.batch, config_.run.batch)
            .copy_(staged_[micro][i], /*non_blocking=*/true);
  });
  run_segments(0, end);
}

/// The step from its inputs on the host to its losses there.
void Executor::issue() {
  part(ir::Phase::forward, [this] {
    drop_survivors();
    launches_.fill(0);
    launched_ = backend_.launched().value_or(0);
    phases_entered_ = 0;
    backend_.issue_step_scalars();
  });
  const auto end = static_cast<OpId>(p_.ops.size());
  OpId optimizer = end;
  while (optimizer > 0 && p_.op(optimizer - 1).phase == ir::Phase::optimizer) --optimizer;
  if (piped())
    issue_pipeline(optimizer);
  else
    issue_micro_batches(optimizer);
  run_segments(optimizer, end);
  wait_for_all();
}

/// Captures the step without running it.
void Executor::capture() {
  capturing_ = true;
  if (capture_ == CudaGraph::step)
    graphs_.push_back({"graph", backend_.capture([this] { issue(); })});
  else
    issue();
  capturing_ = false;
}

StepTiming Executor::run(const Load& load, const std::function<void(std::int64_t, double)>& loss) {
  const MemoryTracker::Scope scope(&tracker_);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;  // no graph is ever built
  backend_.clear_marks();  // a timer sets its first one when the step's inputs are there
  for (std::int64_t micro = 0; micro < config_.run.grad_accum; ++micro)
    load(micro, staged_[static_cast<std::size_t>(micro)]);
  backend_.set_step_scalars(static_cast<float>(optimizer_.learning_rate), step_key());
  if (capture_ != CudaGraph::off && until_capture_-- <= 0 && graphs_.empty()) capture();
  phases_.clear();
  const auto start = Clock::now();
  if (graphs_.empty()) {
    issue();
    phases_.push_back({ir::Phase::optimizer, backend_.mark()});
  } else {
    for (const Captured& captured : graphs_) {
      const nvtx::Range range(captured.range);
      captured.graph->replay();
    }
  }
  finish();
  StepTiming timing;
  timing.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  timing.launches = launches_;
  timing.phases_entered = phases_entered_;
  for (std::size_t i = 0; i + 1 < phases_.size(); ++i)
    timing.by_phase[static_cast<std::size_t>(phases_[i].phase)] +=
        backend_.seconds(phases_[i].mark, phases_[i + 1].mark);
  for (std::int64_t micro = 0; losses_.defined() && micro < config_.run.grad_accum; ++micro)
    loss(micro, losses_[micro].item<double>());
  tracker_.end_step();
  ++step_number_;
  return timing;
}

void Executor::finish() {
  if (collectives_.world() > 1)
    collectives_.wait_for_device([this] { return backend_.finished(); });
  backend_.finish();
}

}  // namespace ac_advisor::trainer
