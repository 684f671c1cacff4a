// TRL v1.16, trainer/dpo_trainer.py: DataCollatorForPreference, DPOTrainer._compute_loss with the
// loss "sigmoid". A batch is pairs: the chosen rows first, then the rejected ones.
#include "ac_advisor/passes/pipeline.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Role;

namespace {

/// Without gradients nothing is checkpointed and no leaf is made.
StepConfig forward_alone(StepConfig config) {
  config.memory.ac = AcMode::none;
  config.adapters.input_grads = InputGrads::off;
  return config;
}

StepConfig of_reference(StepConfig config) {
  config = forward_alone(std::move(config));
  if (!config.task.second_model()) return config;
  config.adapters = {};  // a model of its own is the base as it was loaded
  config.precision.param_dtype = config.reference_dtype();
  return config;
}

/// PeftModel.disable_adapter: each adapted layer is its base layer.
ModelValues without_adapters(ModelValues model) {
  for (BlockValues& block : model.blocks)
    for (LinearValues* l : {&block.q, &block.k, &block.v, &block.o, &block.qkv, &block.gate,
                            &block.up, &block.gate_up, &block.down, &block.q_a, &block.q_b,
                            &block.kv_a, &block.kv_b, &block.ba, &block.z, &block.b, &block.a})
      l->lora_a = l->lora_b = l->magnitude = ir::no_id;
  return model;
}

}  // namespace

/// A teacher is another model than what it teaches; a reference is the same.
const model::ModelSpec& Lowering::second_spec() const {
  return config_.task.distills() ? *config_.task.teacher.model : spec_;
}

/// The collator's masks, the reference's log-probabilities that were computed before, or the
/// reference model. Its parameters are never optimized.
void Lowering::declare_task() {
  const TaskChoice& task = config_.task;
  if (task.supervised()) return;
  const auto given = [&](const ir::Shape& size, DType type) {
    const V v = p_.make(size, type, Role::input, at(Module::root));
    s_.inputs.push_back(v);
    return v;
  };
  const ir::Shape tokens = shape(m_.ids);
  given(tokens, DType::i64);  // attention_mask
  declare_waiting();
  if (task.online()) {
    s_.generation_bytes = generation_bytes();
    // all that was generated for the step, ids and masks
    const std::int64_t rows = config_.run.batch * config_.run.grad_accum;
    for (int i = 0; i < 2; ++i) given({rows, config_.run.seq}, DType::i64);
    // what was said of it: by RLOO's policy of each row, by GRPO's reference of each token
    if (task.kind == Task::rloo)
      s_.precomputed[0] = given({config_.run.batch}, DType::f32);
    else if (task.reference != Reference::none && !config_.verl())
      s_.precomputed[0] = given({config_.run.batch, config_.run.seq - task.prompt}, DType::f32);
  }
  const bool kto = task.kind == Task::kto;
  if (kto) {  // the prompts with others' answers: ids and two masks; which answers are good
    for (int i = 0; i < 3; ++i) given(tokens, DType::i64);
    given({tokens[0]}, DType::u8);
  }
  if (task.reference == Reference::precomputed)
    for (V& side : s_.precomputed) side = given({kto ? tokens[0] : tokens[0] / 2}, DType::f32);
  if (task.reference == Reference::adapter && !task.online()) s_.reference = without_adapters(m_);
  if (task.reference == Reference::adapter && task.scores()) m_ = without_adapters(m_);
  if (!task.second_model()) return;
  if (config_.verl()) return declare_beside_worker();
  const StepConfig config = of_reference(config_);
  const std::vector<V> inputs = s_.inputs;
  const std::vector<StageBlocks> stages = s_.stages;
  const std::int32_t blocks = s_.blocks;
  const std::size_t own = s_.parameters.size();
  s_.reference = {};
  Lowering(second_spec(), config, s_, ir::Owner::reference).declare();
  s_.inputs = inputs;
  s_.stages = stages;
  s_.blocks = blocks;
  s_.reference.ids = m_.ids;
  s_.reference.labels = m_.labels;
  for (std::size_t i = own; i < s_.parameters.size(); ++i) s_.parameters[i].trained = false;
}

/// Of PPO's actor and critic the one that waits.
void Lowering::declare_waiting() {
  const WaitingWorker& waiting = config_.task.waiting;
  for (const std::int64_t bytes : {waiting.parameters, waiting.optimizer_states, waiting.gathered})
    if (bytes > 0)
      s_.buffers.push_back(p_.make({bytes}, DType::u8, Role::waiting, at(Module::root)));
}

/// verl's reference is a worker of its own, whose shards are the host's. FSDP1 keeps what its root
/// has gathered where no backward follows, for good.
void Lowering::declare_beside_worker() {
  if (config_.layout.shard != Sharding::fsdp1) return;
  std::int64_t root = 0;
  for (const Parameter& parameter : s_.parameters)
    if (parameter.module.block < 0) root += p_.value(parameter.value).shape.numel();
  ir::ModulePath module = at(Module::fsdp);
  module.owner = ir::Owner::reference;
  s_.buffers.push_back(p_.make({root}, config_.precision.compute_dtype, Role::parameter, module));
}

/// input_ids.masked_fill(completion_mask == 0, -100)
ir::ValueId Lowering::scored_labels() {
  leaf_ = Module::loss;
  const V prompt = make_int(OpKind::compare, shape(m_.labels), DType::u8, {m_.labels},
                            ir::Compare{0.0, ir::Comparison::equal});
  return make_int(OpKind::masked_fill, shape(m_.ids), DType::i64, {m_.ids, prompt});
}

/// log_probs[:, -seq_len:].sum(dim=1)
ir::ValueId Lowering::sum_of_sequence(V log_probs) {
  const V seen = p_.on_storage_of(log_probs, shape(log_probs), dtype(log_probs), false);
  p_.value(seen).requires_grad = grad(log_probs);
  emit(OpKind::slice, {log_probs}, {seen});
  const V total = out({shape(log_probs)[0]}, dtype(log_probs), grad(log_probs));
  emit(OpKind::sum, {seen}, {total});
  return total;
}

/// The chosen rows' and the rejected ones', as views.
std::array<ir::ValueId, 2> Lowering::halves(V of_pairs) {
  ir::Shape half = shape(of_pairs);
  half.set(0, half[0] / 2);
  std::array<V, 2> sides{};
  for (V& side : sides) {
    side = p_.on_storage_of(of_pairs, half, dtype(of_pairs), false);
    p_.value(side).requires_grad = grad(of_pairs);
  }
  emit(OpKind::split, {of_pairs}, {sides[0], sides[1]});
  return sides;
}

/// A reference that is a model of its own was given a head of log-probabilities alone.
Lowering::Logged Lowering::logged_by_head(bool of_reference) const {
  if (of_reference && config_.task.reference == Reference::model) return Logged::nothing;
  return config_.task.kind == Task::kto ? Logged::means : Logged::all;
}

/// The reference's forward and its head, on this object: `m_` are its parameters.
ir::ValueId Lowering::reference_forward() {
  phase_ = before_step_ ? Phase::forward : Phase::loss;
  backbone();
  const Scored of = fused_head(logged_by_head(!before_step_));
  hold({hidden_});
  hold({of.mask, of.entropy, of.mean_logits, of.likeliest, of.loss});
  end_autocast();
  return of.log_probs;
}

/// Under torch.no_grad, while what the model saved for backward is alive. What the caller's frame
/// has of it goes to `held`.
ir::ValueId Lowering::reference_log_probs(std::vector<V>& held) {
  const V log_probs = log_probs_of(ir::Owner::reference, labels_);
  held.push_back(log_probs);
  return log_probs;
}

/// A forward of the reference, or of the policy itself, under torch.no_grad. Neither is the one
/// that is trained on, so both are a reference's ops.
void Lowering::apart(ir::Owner owner, const std::function<void(Lowering&)>& run) {
  const auto first = p_.ops.size();
  const std::vector<V> graph_held = s_.graph_held;
  const bool policy = owner == ir::Owner::no_grad;
  const StepConfig config = policy ? forward_alone(config_) : of_reference(config_);
  Lowering scoring(policy ? spec_ : second_spec(), config, s_, owner,
                   policy ? s_.model : s_.reference);
  const std::vector<StageBlocks> stages = s_.stages;
  if (!policy) s_.stages = stages_of_rank(second_spec(), config);
  run(scoring);
  s_.stages = stages;
  s_.graph_held = graph_held;  // a function's context goes with its call
  for (auto i = first; i < p_.ops.size(); ++i)
    for (V v : p_.outputs(p_.ops[i])) p_.value(v).requires_grad = false;
}

/// What the reference says of the labels, or the policy itself.
ir::ValueId Lowering::log_probs_of(ir::Owner owner, V labels) {
  V log_probs = ir::no_id;
  apart(owner, [&](Lowering& scoring) {
    scoring.labels_ = labels;
    scoring.before_step_ = owner == ir::Owner::no_grad;
    log_probs = scoring.reference_forward();
  });
  return log_probs;
}

/// The forward of a second model alone, of completions that wait for their rewards.
void Lowering::score_by_reference() {
  const StepConfig config = of_reference(config_);
  Lowering scoring(spec_, config, s_, ir::Owner::reference, s_.reference);
  scoring.labels_ = scoring.scored_labels();
  s_.outputs = {scoring.reference_forward()};
  scoring.hold({scoring.labels_});
}

/// Of a number a pair.
ir::ValueId Lowering::mean_loss(V of_pairs) {
  const V mean = out({}, dtype(of_pairs), grad(of_pairs));
  emit(OpKind::mean, {of_pairs}, {mean});
  return mean;
}

/// "sigmoid", of what the chosen answers' tokens add up to and the rejected ones'.
ir::ValueId Lowering::sigmoid_loss_of_pairs(const std::array<V, 2>& policy,
                                            const std::array<V, 2>& reference,
                                            std::vector<V>& held) {
  constexpr double beta = 0.1;
  constexpr ir::Add minus{-1.0};
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V chosen = binary(OpKind::add, policy[0], reference[0], minus),
          rejected = binary(OpKind::add, policy[1], reference[1], minus);
  const V margin = binary(OpKind::add, chosen, rejected, minus);
  const V likelihood =
      unary(OpKind::log_sigmoid, unary(OpKind::mul_scalar, margin, ir::Number{beta}));
  const V mean = mean_loss(unary(OpKind::neg, likelihood));
  held.insert(held.end(), {chosen, rejected, margin});
  return unary(OpKind::add_scalar, unary(OpKind::mul_scalar, mean, ir::Number{1.0}));
}

void Lowering::loss_dpo() {
  const Scored of = fused_head(Logged::all);
  hold({hidden_});
  hold_all({held_of_head_.begin(), held_of_head_.end()});
  end_autocast();
  const std::array<V, 2> policy = halves(sum_of_sequence(of.log_probs));
  std::vector<V> held{of.log_probs, of.entropy, of.mean_logits, of.likeliest, of.mask, of.loss};
  std::array<V, 2> reference = s_.precomputed;
  if (config_.task.runs_reference()) reference = halves(sum_of_sequence(reference_log_probs(held)));
  held.push_back(labels_);
  const V loss = sigmoid_loss_of_pairs(policy, reference, held);
  s_.loss = with_balance(loss, of.balance);
  logged(of.mask, of.entropy, of.likeliest);
  hold_all(held);
  s_.outputs = {of.log_probs};
}

}  // namespace ac_advisor::passes
