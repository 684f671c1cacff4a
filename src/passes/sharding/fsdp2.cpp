// fully_shard (FSDP2), PyTorch v2.11: when a group is gathered, resharded, prefetched and reduced,
// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py and _fsdp_state.py. What that allocates
// is in fsdp2_buffers.cpp.
#include <algorithm>
#include <string>
#include <utility>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "fsdp2_buffers.hpp"
#include "passes/adapters/targets.hpp"
#include "passes/map_inputs.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

/// One micro-batch: the hooks of its forward, its backward and of what is recomputed in between.
class Fsdp2 {
 public:
  Fsdp2(StepProgram& step, const StepConfig& config)
      : s_(step), p_(step.program), c_(config), b_(step, config) {}

  void rewrite() {
    first_ = s_.micro_begin.back();
    const std::vector<Op> old(p_.ops.begin() + first_, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first_));
    piped_ = c_.layout.pp > 1;
    reduces_ = !piped_ && (!c_.layout.no_sync || static_cast<std::int64_t>(s_.micro_begin.size()) ==
                                                     micro_batches_written(c_));
    std::size_t begin = 0;
    if (is_end(old.front())) push(old[begin++]);  // the loop drops an output, then calls the model
    // _PipelineScheduleRuntime._assert_unsharded
    if (piped_)
      for (ParamGroup* group : b_.in_module_order()) b_.wait_for_unshard(*group, false);
    ir::Owner running = old[begin].module.owner;
    if (is_own_unit(running) && c_.task.scores() && c_.task.kind == Task::rloo) gather(b_.root());
    if (scored_before()) call_head_on();
    enter_model(running);
    const std::size_t weights = weights_part(old);
    inputs_alone_ = weights < old.size();
    find_ends({old.begin(), old.begin() + static_cast<std::ptrdiff_t>(weights)});
    std::int32_t current = -1;
    bool in_backward = false, recomputing = false;
    bool left_forward = is_own_unit(running);  // a second model has no units of its own
    const auto leave = [&] {
      if (is_own_unit(running))
        leave_reference();
      else if (!left_forward)
        leave_forward(current);
      left_forward = true;
      current = -1;
    };
    for (std::size_t i = begin; i < weights; ++i) {
      const Op& op = old[i];
      const bool group_begins = i == 0 || old[i - 1].group != op.group;
      if (op.phase < Phase::backward) {
        if (op.module.owner != running) {
          leave();
          left_forward = !enter_after(running, op.module.owner);
          running = op.module.owner;
        }
        if (outside(op)) leave();
        if (!ends_locals(op) && !left_forward)
          current = forward_transition(current, b_.group_of(op));
      } else if (!in_backward && before_root(old, op)) {
        leave();
        push(op);
        // The seed, the gradient of the loss, whose hook is the root's where that makes the loss.
        in_backward = !s_.loss_outside;
        if (in_backward) pre_backward(b_.root());
        continue;
      }
      if (op.phase >= Phase::backward && !in_backward) {
        leave();
        in_backward = true;
        pre_backward(b_.root());
      }
      if (op.phase == Phase::recompute) {
        if (!recomputing) {
          recomputing = true;
          current = backward_transition(current, backward_group_after(old, i), i);
          recompute_group_ = -1;
        }
        // A checkpoint around several units runs their forward hooks again, without resharding.
        const std::int32_t u = b_.group_of(op);
        if (u != recompute_group_) recompute_transition(current, u);
        recompute_group_ = u;
      } else if (op.phase == Phase::backward) {
        while (!recomputed_.empty()) leave_recomputed();
        recomputing = false;
        if (group_begins && !is_end(op)) current = backward_transition(current, b_.group_of(op), i);
      }
      push(op);
    }
    if (c_.task.scores()) {
      leave();
      if (is_own_unit(running) && c_.task.kind == Task::rloo) keep_whole();
      return;
    }
    backward_transition(current, -1, weights);
    finish_backward();
    mark_weights_part(weights < old.size());
    for (std::size_t i = weights; i < old.size(); ++i) push(old[i]);
    if (weights < old.size()) defer_widening();
    if (piped_) b_.keep();
  }

 private:
  static bool is_end(const Op& op) { return op.kind == OpKind::hold && op.module.block < 0; }

  /// Of a backward in two parts, where the second begins, which calls no hook: it runs no node that
  /// a module's output or input belongs to. The first stage's is all of its backward, with hooks.
  [[nodiscard]] std::size_t weights_part(const std::vector<Op>& old) const {
    const bool apart = !s_.weight_begin.empty() && s_.weight_begin.back() != no_id &&
                       s_.ends.back().input != no_id;
    return apart ? static_cast<std::size_t>(s_.weight_begin.back() - first_) : old.size();
  }
  void mark_weights_part(bool apart) {
    if (s_.weight_begin.empty() || s_.weight_begin.back() == no_id) return;
    OpId begin = apart ? static_cast<OpId>(p_.ops.size()) : first_;
    while (!apart && p_.op(begin).phase < Phase::backward) ++begin;
    s_.weight_begin.back() = begin;
  }

  [[nodiscard]] std::int64_t micro() const {
    return static_cast<std::int64_t>((s_.ends.size() - 1) / s_.stages.size());
  }
  /// What a weights' part leaves is widened by the hooks of the stage's next backward for inputs.
  void defer_widening() {
    if (c_.precision.reduce_dtype == c_.precision.compute_dtype) return;
    const auto next =
        s_.schedule.input_backward_after(static_cast<std::int64_t>(s_.chunk), micro());
    if (!next) return;
    for (ParamGroup* group : b_.in_module_order()) b_.wait_for(*group, *next);
  }

  /// The end of locals enters no module that is done, and leaves none. One at a module's begin is
  /// of a collective that the module waits for: its hooks have run.
  bool ends_locals(const Op& op) {
    if (op.kind != OpKind::hold) return false;
    const std::int32_t of = b_.group_of(op);
    return of < 0 || !b_.group(of).post_forward_indices.empty();
  }

  /// Whether a forward op runs after the root's forward.
  [[nodiscard]] bool outside(const Op& op) const {
    return s_.loss_outside && op.phase == Phase::loss;
  }
  /// Whether an op of backward runs before the root's: the seed, which a stage without a loss has
  /// not, and of a loss outside all of it.
  [[nodiscard]] bool before_root(const std::vector<Op>& old, const Op& op) const {
    return op.forward == no_id || outside(old[static_cast<std::size_t>(op.forward - first_)]);
  }

  /// Where each group's backward ends: what another module does in between ends nothing.
  void find_ends(const std::vector<Op>& old) {
    ends_.assign(b_.groups().size(), 0);
    for (std::size_t i = 0; i < old.size(); ++i)
      if (const std::int32_t of = b_.group_of(old[i]); of >= 0 && old[i].phase >= Phase::backward)
        ends_[static_cast<std::size_t>(of)] = i;
  }

  void push(const Op& source) {
    b_.set_phase(source.phase);
    b_.gather_what_is_read(source);
    Op op = source;
    map_inputs(p_, op, [&](ValueId v) {
      const ValueId whole = b_.instance(v);
      for (ValueId view : p_.outputs(op))  // of a view of a parameter
        if (whole != v && p_.storage_of(view) == p_.storage_of(v))
          p_.value(view).storage = p_.storage_of(whole);
      return whole;
    });
    const auto id = static_cast<OpId>(p_.ops.size());
    moved_.push_back(id);
    if (op.forward >= first_) op.forward = moved_[static_cast<std::size_t>(op.forward - first_)];
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    p_.ops.push_back(op);
  }

  void pre_forward(ParamGroup& group) {
    if (c_.precision.param_dtype != c_.precision.compute_dtype)
      b_.record(1);  // FSDP::cast_forward_inputs
    if (group.empty()) return;
    b_.record(1);  // FSDP::pre_forward
    b_.unshard(group);
    b_.wait_for_unshard(group, true);
    if (!in_backward_) prefetch(b_.after(group));
  }
  /// FSDPParamGroup._prefetch_unshard of what set_modules_to_forward_prefetch, or
  /// …backward_prefetch, was told.
  void prefetch(const std::vector<ParamGroup*>& groups) {
    for (ParamGroup* group : groups) {
      b_.record(1);  // FSDP::forward_prefetch, FSDP::backward_prefetch
      b_.unshard(*group);
    }
  }

  /// A unit's forward hooks inside backward, unless its backward has begun: it is not resharded.
  /// The first unit is the root of that little forward, so the last all-gather's buffer goes with
  /// its end.
  void recompute_transition(std::int32_t current, std::int32_t next) {
    while (!recomputed_.empty() && recomputed_.back() != next &&
           (next < 0 || recomputed_.back() != b_.group(next).within))
      leave_recomputed();
    if (next < 0 || next == current || b_.group(next).in_backward) return;
    if (!recomputed_.empty() && recomputed_.back() == next) return;
    if (recomputed_.empty()) b_.record(1);  // FSDP::root_pre_forward
    pre_forward(b_.group(next));
    recomputed_.push_back(next);
  }
  void leave_recomputed() {
    recomputed_.pop_back();
    b_.record(1);  // FSDP::post_forward
    if (recomputed_.empty()) b_.release_all_gather();
  }

  /// A head that is read and not called: its unit's modules never have all run, so there is neither
  /// a post-forward nor a pre-backward (FSDPState._modules_to_run_forward).
  [[nodiscard]] bool waits_for_head(const ParamGroup& group) {
    return c_.layout.fsdp_unit == FsdpUnit::accelerate && c_.memory.loss == LossKind::tiled &&
           &group == &b_.head();
  }

  void post_forward(ParamGroup& group) {
    if (group.empty() || waits_for_head(group)) return;
    b_.record(1);  // FSDP::post_forward
    if (group.reshard_after_forward) b_.reshard_after_forward(group);
    group.post_forward_indices.push_back(static_cast<std::int32_t>(post_forward_order_.size()));
    post_forward_order_.push_back(&group);
  }

  std::int32_t forward_transition(std::int32_t current, std::int32_t next) {
    if (current == next) return current;
    if (next < 0 || current < 0 || b_.group(next).within != current) {
      current = leave_units(current, next);
      if (current == next) return current;
    }
    if (next >= 0 && !is_called_on(b_.group(next))) pre_forward(b_.group(next));
    return next;
  }
  /// Whether the policy has scored completions, or KTO's rows, without gradients just before.
  [[nodiscard]] bool scored_before() {
    return c_.task.kind == Task::rloo && c_.task.scorer != Scorer::policy &&
           s_.micro_begin.size() == 1 && keeps_head();
  }
  [[nodiscard]] bool keeps_head() {
    return !c_.adapters.used() && !b_.head().empty() && waits_for_head(b_.head()) &&
           &b_.head() != &b_.root();
  }
  /// The head's unit waits for its head since a forward before (FSDPState._modules_to_run_forward):
  /// it is whole, and this forward calls no hook of it, so that backward reduces it at its end.
  void call_head_on() {
    gather(b_.head());
    head_is_called_on_ = true;
  }
  void gather(ParamGroup& group) {
    if (group.empty()) return;
    b_.unshard(group);
    b_.wait_for_unshard(group, false);
  }
  /// What the policy's forward has left whole, while a second model scores.
  void keep_whole() {
    for (ParamGroup* group : {&b_.root(), &b_.head()})
      for (ValueId whole : group->gathered) b_.hold(whole);
  }
  [[nodiscard]] bool is_called_on(const ParamGroup& group) {
    return head_is_called_on_ && &group == &b_.head();
  }
  /// Out of the unit, and of that which it is within, unless that is the next.
  std::int32_t leave_units(std::int32_t current, std::int32_t next) {
    while (current >= 0 && current != next) {
      post_forward(b_.group(current));
      current = b_.group(current).within;
    }
    return current;
  }

  /// The root's post-forward: the last all-gather's buffer goes.
  void leave_forward(std::int32_t current) {
    leave_units(current, -1);
    post_forward(b_.root());
    b_.release_all_gather();
  }

  void pre_backward(ParamGroup& group) {
    in_backward_ = true;
    if (group.empty()) return;
    b_.record(1);  // FSDP::pre_backward
    b_.set_phase(Phase::backward);
    b_.unshard(group);
    b_.wait_for_unshard(group, false);
    const std::vector<ParamGroup*> told = b_.before(group);
    prefetch(told);
    if (group.post_forward_indices.empty() || !told.empty()) return;
    const std::int32_t target = group.post_forward_indices.back() - 1;
    group.post_forward_indices.pop_back();
    if (target < 0) return;
    b_.record(1);  // FSDP::backward_prefetch
    b_.unshard(*post_forward_order_[static_cast<std::size_t>(target)]);
  }

  /// A second model, which is a unit of its own, whose hooks keep no order for backward.
  [[nodiscard]] bool is_own_unit(ir::Owner owner) {
    return owner == ir::Owner::reference && b_.reference() != nullptr;
  }
  void enter_model(ir::Owner owner) {
    b_.record(1);  // FSDP::root_pre_forward
    pre_forward(is_own_unit(owner) ? *b_.reference() : b_.root());
  }
  /// From one forward to another model's, or the same one's again; from a reference's to the
  /// policy's loss, whose forward has ended. Returns whether the policy's units run now.
  bool enter_after(ir::Owner before, ir::Owner next) {
    const bool returns = before == ir::Owner::reference;
    if (!is_own_unit(before) && !is_own_unit(next))
      b_.read_head_anew(next == ir::Owner::reference, returns);
    if (before == ir::Owner::no_grad && keeps_head()) call_head_on();
    if (!returns) enter_model(next);
    return !returns && !is_own_unit(next);
  }
  void leave_reference() {
    b_.record(1);  // FSDP::post_forward
    b_.reshard_after_forward(*b_.reference());
    b_.release_all_gather();
  }

  std::int32_t backward_transition(std::int32_t current, std::int32_t next, std::size_t at) {
    if (current == next) return current;
    b_.set_phase(Phase::backward);
    const auto in_between = [&](std::int32_t of) {
      return ends_[static_cast<std::size_t>(of)] > at;
    };
    if (current >= 0) {
      ParamGroup& group = b_.group(current);
      group.in_backward = in_between(current);
      if (!group.in_backward && !is_called_on(group)) post_backward(group);
    }
    if (next >= 0) begin_backward(b_.group(next));
    return next;
  }
  /// What a unit's output is the input of within another one may launch nothing in backward.
  void begin_backward(ParamGroup& group) {
    if (group.in_backward) return;
    if (group.within >= 0) {
      ParamGroup& around = b_.group(group.within);
      begin_backward(around);
      around.in_backward = true;
    }
    pre_backward(group);
  }

  [[nodiscard]] std::int32_t backward_group_after(const std::vector<Op>& old, std::size_t i) const {
    while (i < old.size() && old[i].phase != Phase::backward) ++i;
    return i < old.size() ? b_.group_of(old[i]) : -1;
  }

  void post_backward(ParamGroup& group) {
    if (group.empty()) return;
    if (reduces_) return b_.post_backward(group);
    b_.record(2);                    // FSDP::post_backward_accumulate, post_backward_reshard
    if (!piped_) b_.reshard(group);  // _PipelineStageBase.backward_maybe_with_nosync keeps it
    if (inputs_alone_) return b_.widen_waiting(group, micro());
    b_.widen(group);  // the whole gradients wait for the last micro-batch
  }

  void finish_backward() {
    b_.record(1);  // FSDP::root_post_backward_callback
    post_backward(b_.root());
    if (head_is_called_on_) post_backward(b_.head());
    b_.release_reductions();
    // What was gathered ahead for a backward that its unit has not (a frozen embedding's):
    // FSDPParamGroup.finalize_backward.
    if (!piped_)
      for (ParamGroup& group : b_.groups())
        if (group.all_gather_output != no_id)
          b_.hold(std::exchange(group.all_gather_output, no_id));
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  Fsdp2Buffers b_;
  std::vector<ParamGroup*> post_forward_order_;
  OpId first_ = 0;
  std::vector<OpId> moved_;        ///< where the ops from first_ on stand now
  std::vector<std::size_t> ends_;  ///< by group: its last op in backward
  std::int32_t recompute_group_ = -1;
  std::vector<std::int32_t> recomputed_;  ///< units whose forward hooks have run again, inside out
  bool piped_ = false, reduces_ = true, inputs_alone_ = false, head_is_called_on_ = false,
       in_backward_ = false;
};

bool applies(const StepConfig& config) { return config.layout.gathers(); }

/// _PipelineScheduleRuntime: what a rank's stages begin with is gathered before anything runs
/// (_add_unshard_reshard, v2.11: up to three of them), by unshard(async_op=True), whose buffers are
/// of the stream that computes (FSDPCommContext.get_all_gather_streams).
void gather_stages(StepProgram& step, const StepConfig& config) {
  for (step.chunk = 0; step.chunk < step.stages.size(); ++step.chunk) {
    Fsdp2Buffers buffers(step, config);
    for (ParamGroup* group : buffers.in_module_order()) buffers.unshard_in_line(*group);
    buffers.keep();
  }
  step.chunk = 0;
}

/// dim-0 shards, padded to equal size on all ranks.
void make_shards(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  for (Parameter& parameter : step.parameters) {
    // FSDPParam.reset_sharded_param: the other unit's, declared before
    if (parameter.tied != no_id) {
      const auto other =
          std::find_if(step.parameters.begin(), step.parameters.end(),
                       [&](const Parameter& p) { return p.value == parameter.tied; });
      parameter.stored = other->stored;
      parameter.optimized = other->optimized;
      continue;
    }
    const ir::Shape shape = step.program.value(parameter.value).shape;
    const bool of_reference = parameter.module.owner == ir::Owner::reference;
    const DType dtype = parameter.trained ? trained_dtype(config)
                        : of_reference    ? config.reference_dtype()
                                          : config.precision.param_dtype;
    parameter.stored = step.program.make({fsdp_shard_numel(config, parameter, shape)}, dtype,
                                         ir::Role::parameter, parameter.module);
    // CPUOffloadPolicy: the shard is the host's, and no op makes it on the device.
    if (config.memory.offload != Offload::parameters) step.resident.push_back(parameter.stored);
    if (!parameter.trained) continue;
    parameter.optimized = step.optimized.size();
    step.optimized.push_back({parameter.stored, no_id});
  }
  if (config.layout.pp > 1 && has_stages_of_a_rank(config.layout.pp_schedule))
    gather_stages(step, config);
}

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Fsdp2(step, config).rewrite();
}

using model::ModelSpec;

bool torchtitan_units(const StepConfig& c) {
  return c.layout.gathers() && c.layout.fsdp_unit == FsdpUnit::torchtitan;
}

/// Its routers' weights are in fp32, whatever the model's dtype is.
bool routes_in_fp32(const ModelSpec& m) {
  return m.moe && model::in_fp32(model::class_facts(m.family).router);
}

constexpr Exclusion exclusions_of_fsdp2[] = {
    {"--shard none --world N, N above 1", "none is one rank alone",
     "choose ddp, zero1, zero2, fsdp1, fsdp2 or hsdp:N, or --world 1",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.shard == Sharding::none && c.layout.replica_ranks() > 1;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--shard none --world " + std::to_string(c.layout.world);
     }},
    {"--shard of any kind --world 1", "needs --world 2 or more", "with one rank use --shard none",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.shard != Sharding::none && c.layout.replica_ranks() < 2;
     },
     [](const ModelSpec&, const StepConfig& c) { return "--shard " + shard_option(c); }},
    {"--shard hsdp:N --world W",
     "the ranks that have the same parameters must be divisible by N, with at least two replicas "
     "of "
     "at least two shards",
     "choose another N, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       const std::int64_t n = c.layout.hsdp_shards;
       return c.layout.shard == Sharding::hsdp &&
              (n < 2 || c.layout.replica_ranks() % n != 0 || c.layout.replica_ranks() / n < 2);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--shard " + shard_option(c) + " --world " + std::to_string(c.layout.world);
     }},
    {"--fsdp-unit torchtitan, a tied or scaled embedding, or learned positions",
     "its embedding and its head are units of their own, and have their parameters for themselves",
     "use --fsdp-unit block",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool tied = m.tied_embeddings && !model::layer_forms(m, c).ties_shards;
       return torchtitan_units(c) && (tied || m.scaled_embedding || m.position_table > 0);
     }},
    {"--fsdp-unit torchtitan --lora",
     "an embedding that is gathered ahead for a backward that it has not is not planned yet",
     "use --fsdp-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return torchtitan_units(c) && c.adapters.used();
     }},
    {"--fsdp-unit torchtitan, a loss that reads the head's weight",
     "the weight is there for the head's own forward alone", "use --loss ce, or --fsdp-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return torchtitan_units(c) && c.memory.loss != LossKind::ce &&
              c.memory.loss != LossKind::ce_no_upcast && c.memory.loss != LossKind::ce_compiled;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--fsdp-unit torchtitan --loss " + loss_option(c);
     }},
    {"--reshard-after-forward N, N no divisor of a unit's ranks",
     "fully_shard divides the ranks that share a unit into groups of N",
     "give a divisor, such as the ranks of a node, or --reshard-after-forward false",
     [](const ModelSpec&, const StepConfig& c) {
       const std::int64_t n = c.layout.reshard_to;
       return n > 0 && c.layout.gathers() && (fsdp_shards(c) % n != 0 || n >= fsdp_shards(c));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--reshard-after-forward " + std::to_string(c.layout.reshard_to) + " of " +
              std::to_string(fsdp_shards(c)) + " ranks";
     }},
    {"--reshard-after-forward N with --ep, --pp, --tp, --fp8-all-gather, --keep-last-block, --lora "
     "or "
     "--offload parameters",
     "FSDPParam keeps such parts of one dtype and one mesh alone, and stages keep whole blocks",
     "use --reshard-after-forward true or false",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.reshard_to > 0 &&
              (c.layout.ep > 1 || c.layout.pp > 1 || c.layout.tp > 1 ||
               c.precision.fp8_all_gather || c.layout.keep_last_block || c.adapters.used() ||
               c.memory.offload == Offload::parameters);
     }},
    {"--shard fsdp2 or hsdp:N --param-dtype fp32 --compute-dtype bf16 --ac, angles in fp32",
     "fully_shard casts the angles that a block is given in its forward alone, and a checkpoint "
     "finds them in fp32 when it runs the block again: PyTorch raises a CheckpointError",
     "use --param-dtype bf16, or --ac none",
     [](const ModelSpec& m, const StepConfig& c) {
       return model::angles_are_cast(m, c) && c.memory.ac != AcMode::none;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--shard " + shard_option(c) + " in mixed precision, --ac " + ac_option(c) + " for " +
              m.family;
     }},
    {"--shard fsdp2 or hsdp:N --param-dtype bf16 or fp16, routers in fp32 that are trained",
     "fully_shard asks for trained parameters of one dtype in a unit, and this model keeps its "
     "routers' in "
     "fp32: PyTorch raises an AssertionError",
     "use --param-dtype fp32",
     [](const ModelSpec& m, const StepConfig& c) {
       return routes_in_fp32(m) && c.layout.gathers() && !c.adapters.used() &&
              c.precision.param_dtype != DType::f32;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--shard " + shard_option(c) + " for " + m.family;
     }},
    {"--shard other than fsdp2 and hsdp:N, routers in fp32",
     "buckets and partitions of two dtypes are not planned for this model yet",
     "use --shard fsdp2 --param-dtype fp32",
     [](const ModelSpec& m, const StepConfig& c) {
       return routes_in_fp32(m) && c.layout.shard != Sharding::none && !c.layout.gathers();
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--shard " + shard_option(c) + " for " + m.family;
     }},
    {"--quantize, --fp8 or --lora-targets all-linear, routers that are linear layers",
     "they take this model's routers for layers like others, which is not planned yet",
     "use --quantize none --lora-targets q_proj,v_proj",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool linear = m.moe && model::class_facts(m.family).router == model::Router::fp32;
       return linear && (c.adapters.quantize != Quantization::none || c.precision.float8() ||
                         (c.adapters.used() && c.adapters.targets == "all-linear"));
     },
     [](const ModelSpec& m, const StepConfig& c) {
       const char* option = c.precision.float8() ? "--fp8"
                            : c.adapters.quantize != Quantization::none
                                ? "--quantize"
                                : "--lora-targets all-linear";
       return std::string(option) + " for " + m.family;
     }},
    {"--keep-last-block --pp", "a pipeline's stages keep all of their blocks", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.keep_last_block && c.layout.gathers() && c.layout.pp > 1;
     }},
    {"--keep-last-block, neither fsdp2 nor hsdp:N", "it is about resharding",
     "use --shard fsdp2 or hsdp:N, or leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.keep_last_block && !c.layout.gathers();
     }},
};

}  // namespace

extern const Pass fsdp2_shards_pass, fsdp2_pass;
const Pass fsdp2_shards_pass{
    "fsdp2-shards", Stage::before, "fsdp2, hsdp: this rank's shard of each parameter",
    applies,        make_shards,   {}};
const Pass fsdp2_pass{"fsdp2",
                      Stage::micro_batch,
                      "fsdp2, hsdp: gathers each unit before use, reduces its gradients after",
                      applies,
                      run,
                      exclusions_of_fsdp2};

}  // namespace ac_advisor::passes
