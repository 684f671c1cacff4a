// Pipeline parallelism by torch.distributed.pipelining (PyTorch v2.11): the buffers that a stage
// receives into (stage.py, _prepare_forward_infra and _prepare_backward_infra: one a micro-batch,
// made in the first step and kept), and the order of its micro-batches' forwards and backwards
// (schedule.cpp).
#include "ac_advisor/passes/pipeline.hpp"

#include <map>
#include <numeric>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/pipeline/micro_batch.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::Role;
using ir::ValueId;
using model::ModelSpec;
using Kind = PipelineAction::Kind;

constexpr ir::ModulePath root{-1, ir::Module::root};

bool applies(const StepConfig& c) { return c.layout.pp > 1; }

/// Receive buffers of a stage beyond those that the program reads: as many allocations up to this
/// number, one for all that follow.
constexpr std::int64_t most_buffers = 64;

class Buffers {
 public:
  Buffers(StepProgram& step, const ModelSpec& spec, const StepConfig& config)
      : s_(step),
        p_(step.program),
        shape_(shape_of(spec, config)),
        megatron_(config.megatron()),
        dtype_(config.precision.compute_dtype),
        micro_batches_(config.run.grad_accum),
        written_(step.schedule.micro_batches) {}

  /// Activations (B, S, H), which require a gradient, then gradients.
  void make() {
    s_.received.resize(s_.stages.size());
    for (std::size_t chunk = 0; chunk < s_.stages.size(); ++chunk)
      if (!s_.stages[chunk].embedding) fill(chunk, &StageEnds::input, true);
    for (std::size_t chunk = 0; chunk < s_.stages.size(); ++chunk)
      if (!s_.stages[chunk].head) fill(chunk, &StageEnds::output_gradient, false);
  }

 private:
  static ir::Shape shape_of(const ModelSpec& spec, const StepConfig& c) {
    if (c.megatron()) return {c.run.batch, c.local_seq() / c.layout.tp, spec.hidden};
    const StepConfig fed = as_fed(c);
    return {fed.run.batch, fed.run.seq / c.layout.tp, spec.hidden};
  }
  /// Megatron-core (pipeline_parallel/p2p_communication.py) receives into a new tensor each time.
  ValueId buffer(const ir::Shape& shape, bool requires_grad) {
    const ValueId v = p_.make(shape, dtype_, Role::communication, root, requires_grad);
    if (!megatron_) s_.inputs.push_back(v);
    return v;
  }
  void fill(std::size_t chunk, ValueId StageEnds::*end, bool requires_grad) {
    std::vector<StageEnds>& all = s_.received[chunk];
    all.resize(static_cast<std::size_t>(written_));
    for (StageEnds& ends : all) ends.*end = buffer(shape_, requires_grad);
    if (megatron_) return;
    const std::int64_t alone = std::min(micro_batches_, most_buffers);
    for (std::int64_t i = written_; i < alone; ++i) buffer(shape_, false);
    const std::int64_t rest = micro_batches_ - std::max(alone, written_);
    if (rest > 0) buffer({rest, shape_.numel()}, false);
  }

  StepProgram& s_;
  ir::Program& p_;
  ir::Shape shape_;
  bool megatron_;
  DType dtype_;
  std::int64_t micro_batches_, written_;
};

void make_buffers(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  step.schedule = written_schedule(pipeline_rank(config));
  Buffers(step, spec, config).make();
}

/// What this micro-batch of this stage receives, and its rows of the tokens.
void receive(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  const std::size_t micro = step.ends.size() / step.stages.size();
  const std::int64_t rows = as_fed(config).run.batch;
  if (micro > 0 && !config.megatron())
    for (ValueId* given : of_micro_batch(step.model))
      if (*given != no_id)
        *given = step.program.narrow(step.program.root(*given), 0,
                                     static_cast<std::int64_t>(micro) * rows, rows);
  const std::vector<StageEnds>& received = step.received[step.chunk];
  step.ends.push_back(received.empty() ? StageEnds{} : received[micro]);
}

/// The ops of micro-batches that were written one after another, in the order of a rank's schedule.
class Ordered {
 public:
  Ordered(StepProgram& step, const ModelSpec& spec, const StepConfig& config)
      : s_(step),
        p_(step.program),
        c_(config),
        r_(pipeline_rank(config)),
        tied_(spec.tied_embeddings),
        old_(std::move(step.program.ops)) {}

  void rewrite() {
    WrittenSchedule schedule = s_.schedule;
    if (c_.megatron()) drop_locals(schedule.actions);
    p_.ops.clear();
    p_.ops.reserve(old_.size() + schedule.actions.size());
    moved_.assign(old_.size(), no_id);
    std::vector<OpId> begins;
    for (const PipelineAction& action : schedule.actions) {
      s_.stretches.push_back({static_cast<OpId>(p_.ops.size()), action.runs});
      if (s_.stretches.size() == 1) copy(0, static_cast<std::size_t>(s_.micro_begin.front()));
      if (action.kind == Kind::forward) begins.push_back(s_.stretches.back().begin);
      append(action);
      if (action.kind == Kind::forward && action.micro == 1 && schedule.copies > 0)
        make_copies(schedule.copies);
      if (action.kind == Kind::backward && action.micro == 1) hold(copies_);
    }
    hold(kept_);
    if (tied_ && c_.layout.pp > 1 && !c_.megatron())
      for (const StageBlocks& stage : s_.stages) add_tied(stage);
    for (Op& op : p_.ops)
      if (op.forward != no_id) op.forward = moved_[static_cast<std::size_t>(op.forward)];
    s_.micro_begin = std::move(begins);
    s_.surviving.insert(s_.surviving.end(), s_.losses.begin(), s_.losses.end());
  }

 private:
  void append(const PipelineAction& action) {
    switch (action.kind) {
      case Kind::forward:
        copy(begin_of(action), first_of(action, Phase::loss));
        hold(values(action.messages));
        return copy(first_of(action, Phase::loss), first_of(action, Phase::backward));
      case Kind::backward:
        copy(first_of(action, Phase::backward), end_of(action));
        if (c_.megatron()) return keep_gradients(ends(action.chunk, action.micro));
        return let_go_of_backward(action);
      case Kind::input_backward:
        copy(first_of(action, Phase::backward), weight_begin(action));
        return keep_input_gradient(action);
      case Kind::weight_backward:
        copy(weight_begin(action), end_of(action));
        return let_go_of_output(action);
      case Kind::exchange:
        return exchange(action.messages);
      case Kind::let_go:
        return hold(values(action.messages));
      case Kind::reduce:
        if (c_.megatron()) return;  // finalize_model_grads works on the buffers
        s_.chunk = static_cast<std::size_t>(action.chunk);
        if (c_.layout.gathers()) reduce();
        return scale();
    }
  }

  /// backward_one_chunk's locals; the input's gradient of a stage after one of the same rank takes
  /// the place of the step before's.
  void let_go_of_backward(const PipelineAction& action) {
    const StageEnds& of = ends(action.chunk, action.micro);
    std::vector<ValueId> locals;
    if (!r_.after_is_own(action.chunk)) locals.push_back(of.output);
    if (r_.before_is_own(action.chunk)) locals.push_back(of.input_gradient);
    hold(locals);
  }
  /// stage_backward_input: `inp.grad` until the next step clears it. The last stage lets go of its
  /// logits; what the others made waits for the weights' part (backward_state).
  void keep_input_gradient(const PipelineAction& action) {
    const StageEnds& of = ends(action.chunk, action.micro);
    if (of.input == no_id) return;
    if (s_.stages[static_cast<std::size_t>(action.chunk)].head) hold({of.output});
    if (r_.before_is_own(action.chunk)) return;
    s_.surviving.push_back(of.input_gradient);
    if (action.runs == 1) return;  // else those of the micro-batches that this one stands for
    const std::int64_t bytes =
        (p_.storages[static_cast<std::size_t>(p_.storage_of(of.input_gradient))].bytes + 511) /
        512 * 512;
    s_.surviving.push_back(
        p_.make({action.runs - 1, bytes}, DType::u8, Role::activation_grad, root));
    emit(OpKind::empty, {}, {s_.surviving.back()});
  }
  void let_go_of_output(const PipelineAction& action) {
    const bool gone = s_.stages[static_cast<std::size_t>(action.chunk)].head;
    if (!gone && !r_.after_is_own(action.chunk)) hold({ends(action.chunk, action.micro).output});
  }

  /// Megatron-core's order is the same; what torch.distributed.pipelining's locals hold it does
  /// not.
  static void drop_locals(std::vector<PipelineAction>& actions) {
    for (PipelineAction& action : actions)
      if (action.kind != Kind::exchange) action.messages.clear();
  }

  /// schedules.py, v0.16: `input_tensor_grad` and `output_tensor_grad` until the next backward has
  /// made others.
  void keep_gradients(const StageEnds& of) {
    hold(kept_);
    kept_.clear();
    for (ValueId v : {of.input_gradient, of.output_gradient})
      if (v != no_id) kept_.push_back(v);
  }

  /// Megatron-core's tensors come with the message; what was sent is then replaced by a scalar
  /// (schedules.py, deallocate_output_tensor).
  void exchange(const std::vector<Message>& messages) {
    if (!c_.megatron()) {
      const ir::SendReceive which{static_cast<std::int32_t>(s_.exchanges.size())};
      s_.exchanges.push_back(messages);
      std::erase_if(s_.exchanges.back(), [&](const Message& m) { return values({m}).empty(); });
      return emit(OpKind::send_recv, values(messages), {}, which);
    }
    std::vector<Message> sent, received;
    for (const Message& m : messages) {
      const bool comes = m.what == Message::What::input || m.what == Message::What::output_gradient;
      (comes ? received : sent).push_back(m);
    }
    emit(OpKind::send_recv, values(sent), values(received));
  }

  [[nodiscard]] std::size_t index(std::int64_t chunk, std::int64_t micro) const {
    return static_cast<std::size_t>(micro) * s_.stages.size() + static_cast<std::size_t>(chunk);
  }
  [[nodiscard]] const StageEnds& ends(std::int64_t chunk, std::int64_t micro) const {
    return s_.ends[index(chunk, micro)];
  }
  [[nodiscard]] std::size_t begin_of(const PipelineAction& a) const {
    return static_cast<std::size_t>(s_.micro_begin[index(a.chunk, a.micro)]);
  }
  [[nodiscard]] std::size_t end_of(const PipelineAction& a) const {
    const std::size_t next = index(a.chunk, a.micro) + 1;
    return next < s_.micro_begin.size() ? static_cast<std::size_t>(s_.micro_begin[next])
                                        : old_.size();
  }
  /// The first of its ops that is of this phase or of a later one.
  [[nodiscard]] std::size_t first_of(const PipelineAction& a, Phase phase) const {
    std::size_t i = begin_of(a);
    while (i < end_of(a) && old_[i].phase < phase) ++i;
    return i;
  }

  [[nodiscard]] std::size_t weight_begin(const PipelineAction& a) const {
    return static_cast<std::size_t>(s_.weight_begin[index(a.chunk, a.micro)]);
  }

  /// Groups of one micro-batch keep apart from another's.
  void copy(std::size_t begin, std::size_t end) {
    std::map<std::int32_t, std::int32_t> groups;
    for (std::size_t i = begin; i < end; ++i) {
      const auto id = static_cast<OpId>(p_.ops.size());
      moved_[i] = id;
      p_.ops.push_back(old_[i]);
      for (ValueId v : p_.outputs(p_.ops.back())) p_.value(v).producer = id;
      const auto [at, is_new] = groups.try_emplace(old_[i].group, next_group_);
      if (is_new) ++next_group_;
      p_.ops.back().group = at->second;
    }
  }

  [[nodiscard]] std::vector<ValueId> values(const std::vector<Message>& messages) const {
    constexpr ValueId StageEnds::*fields[] = {&StageEnds::input, &StageEnds::output,
                                              &StageEnds::output_gradient,
                                              &StageEnds::input_gradient};
    std::vector<ValueId> all;
    for (const Message& m : messages) {
      const ValueId v = ends(m.chunk, m.micro).*fields[static_cast<std::size_t>(m.what)];
      if (v != no_id) all.push_back(v);
    }
    return all;
  }

  void emit(OpKind kind, const std::vector<ValueId>& in, const std::vector<ValueId>& out = {},
            const ir::Attributes& attributes = {}) {
    const Phase phase = p_.ops.empty() ? Phase::forward : p_.ops.back().phase;
    p_.op(p_.emit(kind, phase == Phase::recompute ? Phase::backward : phase, root, in, out,
                  attributes))
        .group = next_group_++;
  }
  void hold(const std::vector<ValueId>& all) {
    if (!all.empty()) emit(OpKind::hold, all);
  }

  /// _PipelineStageBase.perform_reduce_grad: the post-backward of each unit.
  void reduce() {
    Fsdp2Buffers buffers(s_, c_);
    buffers.set_phase(Phase::backward);
    for (ParamGroup* group : buffers.in_module_order()) buffers.post_backward(*group);
    buffers.record(1);  // FSDP::root_post_backward_callback
    buffers.release_reductions();
  }

  /// _PipelineStageBase.scale_grads: p.grad.div_(n), each by itself.
  void scale() {
    if (!c_.scales_gradients() || c_.run.grad_accum == 1) return;
    for (Parameter& parameter : s_.parameters) {
      ValueId& gradient =
          c_.layout.gathers() ? s_.optimized[parameter.optimized].gradient : parameter.gradient;
      if (gradient == no_id || !has(s_.stages[s_.chunk], parameter.module)) continue;
      const ir::Value like = p_.value(gradient);
      const ValueId divided = p_.on_storage_of(gradient, like.shape, like.dtype, true);
      p_.op(p_.emit(OpKind::div, Phase::backward, parameter.module, {gradient}, {divided},
                    ir::Number{static_cast<double>(c_.run.grad_accum)}))
          .group = next_group_++;
      gradient = divided;
    }
  }

  /// The gradients of the copies of a tied embedding that the first and the last stage have are
  /// added, in place. Schedules leave that to the training loop; Megatron-core has it
  /// (distributed/finalize_model_grads.py, v0.16).
  void add_tied(const StageBlocks& stage) {
    for (const Parameter& parameter : s_.parameters) {
      const ir::Module leaf = parameter.module.leaf;
      const bool copy = (stage.embedding && leaf == ir::Module::embed) ||
                        (stage.head && leaf == ir::Module::lm_head);
      if (!copy || !parameter.trained) continue;
      ValueId gradient =
          c_.layout.gathers() ? s_.optimized[parameter.optimized].gradient : parameter.gradient;
      const ir::Shape own = p_.value(parameter.value).shape;
      // A DTensor that looks tokens up has whole gradients, a head has its own rows'.
      if (!c_.layout.gathers() && p_.value(gradient).shape.numel() > own.numel())
        gradient = p_.narrow(gradient, 0, c_.layout.tp_rank * own[0], own[0]);
      emit(OpKind::tp_all_reduce, {gradient}, {}, ir::TpReduce{false, ir::ReducedOver::ends});
    }
  }

  /// gpipe: what micro-batches that are not written hold until their backward, as much as the one
  /// that stands for them. They are gone one by one after its backward, when less and less is held.
  void make_copies(std::int64_t copies) {
    const PipelineAction second{Kind::forward, 0, 1, {}, 1};
    const std::size_t begin = begin_of(second), end = end_of(second);
    std::vector<bool> made(p_.storages.size(), false), kept(p_.storages.size(), false);
    for (std::size_t i = begin; i < end; ++i) {
      const bool backward = old_[i].phase >= Phase::backward;
      if (backward)
        for (ValueId v : p_.inputs(old_[i])) {
          const auto s = static_cast<std::size_t>(p_.storage_of(v));
          kept[s] = kept[s] || made[s];
        }
      else
        for (ValueId v : p_.outputs(old_[i]))
          made[static_cast<std::size_t>(p_.storage_of(v))] = true;
    }
    kept[static_cast<std::size_t>(p_.storage_of(ends(0, 1).output))] = true;  // fwd_cache
    for (std::size_t s = 0; s < kept.size(); ++s) {
      if (!kept[s]) continue;
      const std::int64_t bytes = (p_.storages[s].bytes + 511) / 512 * 512;
      copies_.push_back(p_.make({copies, bytes}, DType::u8, Role::activation, root));
      emit(OpKind::empty, {}, {copies_.back()});
    }
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  PipelineRank r_;
  bool tied_;
  std::vector<Op> old_;
  std::vector<OpId> moved_;
  std::int32_t next_group_ = 0;
  std::vector<ValueId> copies_;
  std::vector<ValueId> kept_;  ///< Megatron-core: gradients that the schedule's locals name
};

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  Ordered(step, spec, config).rewrite();
}

}  // namespace

extern const std::span<const Exclusion> exclusions_of_pipeline;

extern const Pass pipeline_buffers_pass, pipeline_inputs_pass, pipeline_pass;
const Pass pipeline_buffers_pass{
    "pp-buffers", Stage::before, "pp: what activations and gradients are received into",
    applies,      make_buffers,  {}};
const Pass pipeline_inputs_pass{
    "pp-inputs", Stage::micro_batch, "pp: the buffers of this micro-batch", applies, receive, {}};
const Pass pipeline_pass{
    "pipeline", Stage::step, "pp: micro-batches in the order of the schedule, sends and receives",
    applies,    run,         exclusions_of_pipeline};

}  // namespace ac_advisor::passes
