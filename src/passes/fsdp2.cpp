// fully_shard (FSDP2), PyTorch v2.11, torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py
// (when to unshard, reshard, prefetch, reduce) and _fsdp_collectives.py (which buffers).
#include <algorithm>

#include "shard.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::Role;
using ir::ValueId;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// FSDPParamGroup: the parameters that one fully_shard call gathers together.
struct Unit {
  std::vector<std::size_t> parameters;  ///< indices into StepProgram::parameters
  std::int64_t shard_numel = 0;         ///< padded elements on one rank
  bool reshard_after_forward = true;
  bool unsharded = false;
  ValueId all_gather_output = no_id;  ///< of an all-gather that nobody has waited for yet
  std::vector<ValueId> gathered;      ///< unsharded parameters, while they are
  std::vector<std::int32_t> post_forward_indices;
};

class Fsdp2 final : public ShardPass {
 public:
  Fsdp2(StepProgram& step, const StepConfig& config)
      : s_(step),
        p_(step.program),
        c_(config),
        shards_(config.layout.shard == Sharding::hsdp ? config.layout.hsdp_shards
                                                      : config.layout.world) {
    make_units();
    instance_.assign(p_.values.size(), no_id);
  }

  void rewrite(OpId first) override {
    const std::vector<Op> old(p_.ops.begin() + first, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first));
    first_ = first;
    moved_.clear();
    phase_ = Phase::forward;
    reduces_ = !c_.layout.no_sync || ++micro_ == micro_batches_written(c_.run.grad_accum, true);
    record(1);  // FSDP::root_pre_forward
    pre_forward(root());
    std::int32_t current = -1;
    bool in_backward = false, recomputing = false;
    for (std::size_t i = 0; i < old.size(); ++i) {
      const Op& op = old[i];
      const bool group_begins = i == 0 || old[i - 1].group != op.group;
      if (op.phase < Phase::backward) {
        current = forward_transition(current, unit_of(op));
      } else if (!in_backward) {
        leave_forward(current);
        in_backward = true;
        current = -1;
        push(op);  // the seed: the gradient of the loss, whose hook is the root's pre-backward
        pre_backward(root());
        continue;
      } else if (op.phase == Phase::recompute) {
        if (!recomputing) {
          recomputing = true;
          current = backward_transition(current, backward_unit_after(old, i));
          recompute_unit_ = -1;
        }
        // A checkpoint around several units runs their forward hooks again, without resharding.
        const std::int32_t u = unit_of(op);
        if (u != recompute_unit_) {
          leave_recomputed();
          if (u >= 0 && u != current) recompute_forward(units_[index(u)]);
          recompute_unit_ = u;
        }
      } else {
        if (recomputing) leave_recomputed();
        recomputing = false;
        if (group_begins && !is_end(op)) current = backward_transition(current, unit_of(op));
      }
      push(op);
    }
    backward_transition(current, -1);
    finish_backward();
  }

  [[nodiscard]] std::vector<OptimizedTensor> optimized() const override { return optimized_; }

 private:
  static std::size_t index(std::int32_t u) { return static_cast<std::size_t>(u); }
  Unit& root() { return units_.back(); }
  [[nodiscard]] std::int32_t unit_of(const Op& op) const {
    return op.module.block < 0 ? -1 : unit_of_block_[static_cast<std::size_t>(op.module.block)];
  }
  static bool is_end(const Op& op) { return op.kind == OpKind::hold && op.module.block < 0; }

  void make_units() {
    const std::int64_t blocks = s_.blocks;
    const std::int64_t per_unit =
        c_.layout.fsdp_unit == FsdpUnit::segment && c_.memory.ac == AcMode::grouped
            ? c_.memory.ac_arg
            : 1;
    const std::int64_t count = ceil_div(blocks, per_unit);
    units_.resize(static_cast<std::size_t>(count) + 1);
    for (std::int64_t b = 0; b < blocks; ++b)
      unit_of_block_.push_back(static_cast<std::int32_t>(b / per_unit));
    for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
      const Parameter& parameter = s_.parameters[i];
      Unit& unit =
          parameter.module.block < 0
              ? root()
              : units_[index(unit_of_block_[static_cast<std::size_t>(parameter.module.block)])];
      const ir::Shape shape = p_.value(parameter.value).shape;
      const std::int64_t rows = ceil_div(shape[0], shards_);
      const std::int64_t numel = rows * (shape.numel() / shape[0]);
      unit.parameters.push_back(i);
      unit.shard_numel += numel;
      const ValueId shard =
          p_.make({numel}, c_.precision.param_dtype, Role::parameter, parameter.module);
      s_.resident.push_back(shard);
      shard_.push_back(shard);
      s_.parameters[i].stored = shard;
      optimized_.push_back({shard, no_id});
    }
    root().reshard_after_forward = false;
    if (c_.layout.keep_last_block && count > 0)
      units_[static_cast<std::size_t>(count) - 1].reshard_after_forward = false;
  }

  // --- emission --------------------------------------------------------------------------------

  OpId emit(OpKind kind, ir::ModulePath module, std::span<const ValueId> in,
            std::span<const ValueId> out) {
    const OpId id = p_.emit(kind, phase_, module, in, out);
    p_.op(id).group = next_group_--;
    return id;
  }
  void hold(ValueId v) {
    const ValueId list[] = {v};
    emit(OpKind::hold, {-1, ir::Module::fsdp}, list, {});
  }
  /// record_function ranges: PyTorch dispatches their begin and end as ops.
  void record(std::int32_t ranges) {
    p_.op(emit(OpKind::record_function, {-1, ir::Module::fsdp}, {}, {})).dim = ranges;
  }
  ValueId buffer(std::int64_t numel, DType dtype, Role role, ir::ModulePath module) {
    return p_.make({numel}, dtype, role, module);
  }
  [[nodiscard]] ir::ModulePath module_of(const Unit& unit) const {
    return {s_.parameters[unit.parameters.front()].module.block, ir::Module::fsdp};
  }

  void push(const Op& source) {
    Op op = source;
    bool any = false;
    for (ValueId v : p_.inputs(op)) any = any || instance(v) != v;
    if (any) {
      const std::vector<ValueId> all(
          p_.operands.begin() + op.first_operand,
          p_.operands.begin() + op.first_operand + op.inputs + op.outputs);
      op.first_operand = static_cast<std::int32_t>(p_.operands.size());
      for (std::size_t i = 0; i < all.size(); ++i)
        p_.operands.push_back(i < op.inputs ? instance(all[i]) : all[i]);
    }
    const auto id = static_cast<OpId>(p_.ops.size());
    moved_.push_back(id);
    if (op.forward >= first_) op.forward = moved_[static_cast<std::size_t>(op.forward - first_)];
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    phase_ = op.phase;
    p_.ops.push_back(op);
  }
  /// The gathered copy that stands for a parameter now.
  [[nodiscard]] ValueId instance(ValueId v) const {
    const auto i = static_cast<std::size_t>(v);
    return i < instance_.size() && instance_[i] != no_id ? instance_[i] : v;
  }

  // --- FSDPParamGroup --------------------------------------------------------------------------

  void unshard(Unit& unit) {
    if (unit.unsharded || unit.all_gather_output != no_id) return;
    const ir::ModulePath module = module_of(unit);
    record(1);  // FSDP::all_gather
    std::vector<ValueId> inputs;
    for (std::size_t i : unit.parameters) inputs.push_back(shard_[i]);
    if (c_.precision.param_dtype !=
        c_.precision.compute_dtype) {  // the foreach copy to the compute dtype
      const ValueId flat[] = {
          buffer(unit.shard_numel, c_.precision.compute_dtype, Role::communication, module)};
      emit(OpKind::foreach, module, inputs, flat);
      inputs.assign(flat, flat + 1);
    }
    unit.all_gather_output = buffer(ir::checked_mul(unit.shard_numel, shards_),
                                    c_.precision.compute_dtype, Role::communication, module);
    const ValueId out[] = {unit.all_gather_output};
    emit(OpKind::all_gather_copy_in, module, inputs, out);
    emit(OpKind::all_gather, module, out, {});
  }

  void wait_for_unshard(Unit& unit, bool forward) {
    if (unit.all_gather_output == no_id) return;
    const ir::ModulePath module = module_of(unit);
    record(1);  // FSDP::all_gather_copy_out
    const ValueId in[] = {unit.all_gather_output};
    for (std::size_t i : unit.parameters) {
      const ValueId parameter = s_.parameters[i].value;
      const ir::Shape shape = p_.value(parameter).shape;
      const std::int64_t padded =
          ceil_div(shape[0], shards_) * shards_ * (shape.numel() / shape[0]);
      const ValueId whole =
          buffer(padded, c_.precision.compute_dtype, Role::gathered, s_.parameters[i].module);
      p_.value(whole).shape = shape;
      p_.value(whole).requires_grad = true;
      unit.gathered.push_back(whole);
      instance_[static_cast<std::size_t>(parameter)] = whole;
    }
    emit(OpKind::all_gather_copy_out, module, in, unit.gathered);
    if (forward) {
      // The one before was kept to overlap its copy-out with this all-gather; the local
      // `prev_all_gather_state` keeps it to the function's end.
      if (held_all_gather_ != no_id) hold(held_all_gather_);
      held_all_gather_ = unit.all_gather_output;
    }
    unit.all_gather_output = no_id;
    unit.unsharded = true;
  }

  void reshard(Unit& unit) {
    if (!unit.unsharded) return;
    emit(OpKind::hold, module_of(unit), unit.gathered, {});
    for (std::size_t i : unit.parameters)
      instance_[static_cast<std::size_t>(s_.parameters[i].value)] = no_id;
    unit.gathered.clear();
    unit.unsharded = false;
  }

  void pre_forward(Unit& unit) {
    record(1);  // FSDP::pre_forward
    if (c_.precision.param_dtype != c_.precision.compute_dtype)
      record(1);  // FSDP::cast_forward_inputs
    unshard(unit);
    wait_for_unshard(unit, true);
  }

  /// A unit's forward hooks inside backward: the unit is the root of that little forward, so its
  /// all-gather's buffer goes with its end; it is not resharded.
  void recompute_forward(Unit& unit) {
    record(1);  // FSDP::root_pre_forward
    pre_forward(unit);
    in_recomputed_ = true;
  }
  void leave_recomputed() {
    if (!in_recomputed_) return;
    in_recomputed_ = false;
    record(1);  // FSDP::post_forward
    if (held_all_gather_ != no_id) hold(held_all_gather_);
    held_all_gather_ = no_id;
  }

  void post_forward(Unit& unit) {
    record(1);  // FSDP::post_forward
    if (unit.reshard_after_forward) reshard(unit);
    unit.post_forward_indices.push_back(static_cast<std::int32_t>(post_forward_order_.size()));
    post_forward_order_.push_back(&unit);
  }

  std::int32_t forward_transition(std::int32_t current, std::int32_t next) {
    if (current == next) return current;
    if (current >= 0) post_forward(units_[index(current)]);
    if (next >= 0) pre_forward(units_[index(next)]);
    return next;
  }

  /// The root's post-forward: the last all-gather's buffer goes.
  void leave_forward(std::int32_t current) {
    if (current >= 0) post_forward(units_[index(current)]);
    post_forward(root());
    if (held_all_gather_ != no_id) hold(held_all_gather_);
    held_all_gather_ = no_id;
  }

  void pre_backward(Unit& unit) {
    record(1);  // FSDP::pre_backward
    phase_ = Phase::backward;
    unshard(unit);
    wait_for_unshard(unit, false);
    if (unit.post_forward_indices.empty()) return;
    const std::int32_t target = unit.post_forward_indices.back() - 1;
    unit.post_forward_indices.pop_back();
    if (target < 0) return;
    record(1);  // FSDP::backward_prefetch
    unshard(*post_forward_order_[index(target)]);
  }

  std::int32_t backward_transition(std::int32_t current, std::int32_t next) {
    if (current == next) return current;
    phase_ = Phase::backward;
    if (current >= 0) post_backward(units_[index(current)]);
    if (next >= 0) pre_backward(units_[index(next)]);
    return next;
  }

  [[nodiscard]] std::int32_t backward_unit_after(const std::vector<Op>& old, std::size_t i) const {
    while (i < old.size() && old[i].phase != Phase::backward) ++i;
    return i < old.size() ? unit_of(old[i]) : -1;
  }

  void post_backward(Unit& unit) {
    record(2);  // FSDP::post_backward_accumulate, post_backward_reshard
    reshard(unit);
    if (!reduces_) return;  // --no-sync: the whole gradients wait for the last micro-batch
    record(1);              // FSDP::post_backward_reduce
    if (held_reduce_scatter_ != no_id) hold(held_reduce_scatter_);
    const ir::ModulePath module = module_of(unit);
    std::vector<ValueId> gradients;
    for (std::size_t i : unit.parameters)
      if (s_.parameters[i].gradient != no_id) gradients.push_back(s_.parameters[i].gradient);
    if (gradients.empty()) return;
    const ValueId input[] = {buffer(ir::checked_mul(unit.shard_numel, shards_),
                                    c_.precision.reduce_dtype, Role::communication, module)};
    emit(OpKind::reduce_scatter_copy_in, module, gradients, input);
    const ValueId output[] = {buffer(unit.shard_numel, c_.precision.reduce_dtype,
                                     c_.precision.reduce_dtype == c_.precision.param_dtype
                                         ? Role::gradient
                                         : Role::communication,
                                     module)};
    emit(OpKind::reduce_scatter, module, input, output);
    if (c_.layout.shard == Sharding::hsdp) emit(OpKind::all_reduce, module, output, {});
    ValueId sharded = output[0];
    if (c_.precision.reduce_dtype != c_.precision.param_dtype) {
      const ValueId cast[] = {
          buffer(unit.shard_numel, c_.precision.param_dtype, Role::gradient, module)};
      emit(OpKind::cast, module, output, cast);
      sharded = cast[0];
      if (c_.layout.shard == Sharding::hsdp) held_all_reduce_.push_back(output[0]);
    }
    store(unit, sharded);
    hold(gradients.back());  // foreach_reduce's loop variable
    held_reduce_scatter_ = input[0];
  }

  /// The shards' gradients are views of the reduce-scatter's output; a later micro-batch adds to
  /// them, one parameter at a time.
  void store(Unit& unit, ValueId sharded) {
    std::int64_t start = 0;
    for (std::size_t i : unit.parameters) {
      const std::int64_t numel = p_.value(shard_[i]).shape[0];
      const ValueId part = p_.narrow(sharded, 0, start, numel);
      start += numel;
      ValueId& gradient = optimized_[i].gradient;
      if (gradient == no_id) {
        gradient = part;
        s_.surviving.push_back(sharded);
        continue;
      }
      const ValueId in[] = {gradient, part};
      emit(OpKind::accumulate_inplace, module_of(unit), in, {});
    }
    hold(sharded);
    for (std::size_t i : unit.parameters) s_.parameters[i].gradient = no_id;
  }

  void finish_backward() {
    record(1);  // FSDP::root_post_backward_callback
    post_backward(root());
    if (held_reduce_scatter_ != no_id) hold(held_reduce_scatter_);
    held_reduce_scatter_ = no_id;
    for (ValueId v : held_all_reduce_) hold(v);
    held_all_reduce_.clear();
    post_forward_order_.clear();
    for (Unit& unit : units_) unit.post_forward_indices.clear();
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  std::int64_t shards_;
  std::vector<Unit> units_;  ///< blocks or segments, then the root
  std::vector<std::int32_t> unit_of_block_;
  std::vector<ValueId> shard_;
  std::vector<OptimizedTensor> optimized_;
  std::vector<ValueId> instance_;
  std::vector<Unit*> post_forward_order_;
  ValueId held_all_gather_ = no_id, held_reduce_scatter_ = no_id;
  std::vector<ValueId> held_all_reduce_;
  OpId first_ = 0;
  std::vector<OpId> moved_;  ///< where the ops from first_ on stand now
  std::int32_t recompute_unit_ = -1, micro_ = 0;
  bool reduces_ = true, in_recomputed_ = false;
  std::int32_t next_group_ = -1'000'000'000;
  Phase phase_ = Phase::forward;
};

}  // namespace

std::unique_ptr<ShardPass> make_fsdp2(StepProgram& step, const StepConfig& config) {
  return std::make_unique<Fsdp2>(step, config);
}

}  // namespace ac_advisor::passes
