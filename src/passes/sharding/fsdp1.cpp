// FullyShardedDataParallel (FSDP1), PyTorch v2.11, torch/distributed/fsdp/_runtime_utils.py, with
// full sharding, original parameters and no forward prefetch: when a unit is
// gathered, freed and reduced. Each block is a unit, around its checkpoint, and the root has the
// rest. What that allocates is in fsdp1_buffers.cpp.
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ac_advisor/passes/pass.hpp"
#include "fsdp1_buffers.hpp"
#include "passes/map_inputs.hpp"

namespace ac_advisor::passes {

namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

/// The first and the last of a block's ops in a micro-batch's forward or backward.
struct Extent {
  std::optional<std::size_t> begin, end;
  void take(std::size_t op) {
    if (!begin) begin = op;
    end = op;
  }
};

/// One micro-batch: the hooks of its units.
class Fsdp1 {
 public:
  Fsdp1(StepProgram& step, const StepConfig& config)
      : s_(step), p_(step.program), b_(step, config), prefetch_(config.layout.backward_prefetch) {
    const auto written = static_cast<std::int64_t>(step.micro_begin.size());
    reduces_ = !config.layout.no_sync || written == micro_batches_written(config);
  }

  void rewrite() {
    first_ = s_.micro_begin.back();
    const std::vector<Op> old(p_.ops.begin() + first_, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first_));
    find_units(old);
    for (const Parameter& parameter : s_.parameters) gradients_.insert(parameter.gradient);
    b_.record(2);  // _root_pre_forward, _to_kwargs
    pre_forward(b_.root());
    bool in_backward = false, left_forward = false;
    const auto leave = [&](Phase phase) {
      if (std::exchange(left_forward, true)) return;
      b_.set_phase(phase);
      b_.record(1);  // _post_forward, which keeps the root's parameters whole
      b_.use_sharded_views(b_.root());
    };
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::size_t unit = b_.unit_of(old[i]);
      if (s_.loss_outside && old[i].phase == Phase::loss) leave(Phase::forward);
      if (!in_backward && old[i].phase >= Phase::backward && before_root(old, old[i])) {
        push(old[i]);
        continue;
      }
      if (!in_backward && old[i].phase >= Phase::backward) {
        in_backward = true;
        leave(Phase::loss);
        b_.set_phase(Phase::backward);
        const bool seed = old[i].forward == ir::no_id;  // before the hook of the root's output
        if (seed) push(old[i]);
        pre_backward(b_.root());
        if (seed) continue;
      }
      if (unit == b_.root()) {
        push(old[i]);
        continue;
      }
      const Extent& forward = forward_[unit];
      const Extent& backward = backward_[unit];
      if (forward.begin == i) pre_forward(unit);
      if (backward.begin == i) pre_backward(unit);
      push(old[i]);
      if (forward.end == i) post_forward(unit);
      if (backward.end == i) post_backward(unit);
    }
    if (in_backward) {
      post_backward(b_.root());
      b_.finish_backward();
      return;
    }
    // Without a backward the root keeps what it has gathered, for the next forward.
    leave(Phase::loss);
    b_.reshard(b_.root());
  }

 private:
  /// Whether an op of backward runs before the root's: of a loss that is computed outside of it.
  [[nodiscard]] bool before_root(const std::vector<Op>& old, const Op& op) const {
    if (!s_.loss_outside) return false;
    if (op.forward == ir::no_id) return true;  // the seed
    return op.forward >= first_ &&
           old[static_cast<std::size_t>(op.forward - first_)].phase == Phase::loss;
  }

  /// Where the blocks' modules begin and end; locals that die later are of no module that runs.
  void find_units(const std::vector<Op>& old) {
    forward_.resize(b_.root());
    backward_.resize(b_.root());
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::size_t unit = b_.unit_of(old[i]);
      if (unit == b_.root()) continue;
      if (old[i].phase >= Phase::backward)
        backward_[unit].take(i);
      else if (old[i].kind != OpKind::hold)
        forward_[unit].take(i);
    }
  }

  void push(const Op& source) {
    Op op = source;
    map_inputs(p_, op, [&](ValueId v) { return b_.instance(v); });
    const auto id = static_cast<OpId>(p_.ops.size());
    moved_.push_back(id);
    if (op.forward >= first_) op.forward = moved_[static_cast<std::size_t>(op.forward - first_)];
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    // Of a parameter that is used twice, its view's backward adds them (find_streams,
    // reserved.cpp).
    if (op.kind == OpKind::accumulate && gradients_.contains(p_.output(op, 0)))
      op.module.leaf = ir::Module::fsdp;
    b_.set_phase(op.phase == Phase::recompute ? Phase::backward : op.phase);
    p_.ops.push_back(op);
  }

  void pre_forward(std::size_t unit) {
    b_.record(2);  // _pre_forward, _pre_forward_prefetch
    b_.unshard(unit);
  }

  void post_forward(std::size_t unit) {
    b_.record(1);  // _post_forward
    b_.reshard(unit);
    ran_.push_back(unit);
  }

  /// Its parameters are there already, if the one before has fetched them. With BACKWARD_PRE it
  /// fetches those of the block that ran before it; with BACKWARD_POST they come when it is done.
  void pre_backward(std::size_t unit) {
    b_.set_phase(Phase::backward);
    b_.record(2);  // _pre_backward_hook, _pre_backward_prefetch
    if (std::exchange(prefetched_, std::nullopt) != unit) b_.unshard(unit);
    if (prefetch_ != BackwardPrefetch::pre) {
      if (!ran_.empty() && ran_.back() == unit) ran_.pop_back();
      return;
    }
    if (ran_.empty()) return;
    prefetch();
    ran_.pop_back();
  }
  void prefetch() {
    prefetched_ = ran_.back();
    b_.unshard(*prefetched_);
  }

  void post_backward(std::size_t unit) {
    b_.join_gradients(unit);
    b_.record(2);  // _post_backward_hook, _post_backward_prefetch
    b_.reshard(unit);
    if (prefetch_ == BackwardPrefetch::post && !ran_.empty()) prefetch();
    if (reduces_) b_.reduce(unit);
  }

  StepProgram& s_;
  ir::Program& p_;
  Fsdp1Buffers b_;
  OpId first_ = 0;
  std::vector<OpId> moved_;                 ///< where the ops from first_ on stand now
  std::vector<Extent> forward_, backward_;  ///< by block
  std::set<ValueId> gradients_;             ///< of the parameters
  std::vector<std::size_t> ran_;            ///< blocks in the order of their forward
  std::optional<std::size_t> prefetched_;   ///< whose backward has not begun yet
  bool reduces_ = true;
  BackwardPrefetch prefetch_;
};

bool applies(const StepConfig& config) { return config.layout.shard == Sharding::fsdp1; }

void make_shards(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  make_flat_parameters(step, config);
}

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Fsdp1(step, config).rewrite();
}

}  // namespace

extern const Pass fsdp1_shards_pass, fsdp1_pass;
const Pass fsdp1_shards_pass{
    "fsdp1-shards", Stage::before, "fsdp1: this rank's shard of each unit's flat parameter",
    applies,        make_shards,   {}};
const Pass fsdp1_pass{"fsdp1",
                      Stage::micro_batch,
                      "fsdp1: gathers each flat parameter before use, reduces its gradient after",
                      applies,
                      run,
                      {}};

}  // namespace ac_advisor::passes
