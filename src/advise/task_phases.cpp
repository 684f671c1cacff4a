// The phases of an online step. TRL v1.16, trainer/grpo_trainer.py, rloo_trainer.py:
// _generate_and_score_completions, then _compute_loss. verl v0.9.1, trainer/ppo/ray_trainer.py: the
// loop of fit(); workers/engine/base.py, BaseEngineCtx: what is moved between host and device
// around each.
#include "task_phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "critic.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"
#include "plan_rank.hpp"
#include "rollout_engine.hpp"

namespace ac_advisor::advise {
namespace {

using profile::Category;
using profile::TaskPhase;

/// verl v0.9.1, trainer/config/rollout/rollout.yaml: update_weights_bucket_megabytes.
constexpr std::int64_t weights_bucket = std::int64_t{2048} << 20;

std::string largest_of(const profile::Profile& p) {
  for (const profile::LiveTensor& tensor : p.memory.largest)
    if (tensor.category != Category::parameters && tensor.category != Category::optimizer_states &&
        tensor.category != Category::reference_parameters &&
        tensor.category != Category::waiting_worker)
      return tensor.shape + " " + tensor.dtype + ", " +
             (tensor.op.empty() ? "" : tensor.op + " of ") + tensor.module;
  return {};
}

/// The forward that scores completions: nothing is kept for a backward, so nothing is checkpointed.
/// `reference`: with its adapters off, where that is the reference.
StepConfig scoring(StepConfig c, bool reference) {
  if (!reference && c.task.reference == Reference::adapter) c.task.reference = Reference::none;
  // A second model that is whole runs what the policy runs; of shards it is a unit of its own.
  const bool apart = c.task.reference != Reference::model || c.layout.gathers() || c.layout.zero3();
  c.task.scorer = reference && apart ? Scorer::reference : Scorer::policy;
  c.run.grad_accum = 1;
  c.memory.ac = AcMode::none;
  c.memory.reentrant = false;
  c.memory.offload = Offload::none;
  c.adapters.input_grads = InputGrads::off;
  c.optimizer.grad_scaler = false;
  if (c.task.score_batch > 0) c.run.batch = c.task.score_batch;
  if (c.verl()) c.run.packing = c.run.batch;
  return c;
}

/// verl's reference: a worker of its own that runs forwards alone, its shards the host's.
StepConfig of_reference(StepConfig c) {
  c.task.reference = Reference::none;
  c.adapters = {};
  if (c.layout.gathers()) c.memory.offload = Offload::parameters;
  return c;
}

class Phases {
 public:
  Phases(profile::Profile& result, bool detail)
      : result_(result),
        detail_(detail),
        c_(result.config),
        engine_(rollout_engine(c_, simulate::find_device(c_.device.gpu))),
        states_(at_peak(result, Category::optimizer_states)),
        parameters_(at_peak(result, Category::parameters)) {}

  void add_all() {
    rollout();
    if (scores()) score("old_log_prob", scoring(c_, false));
    if (c_.task.reference == Reference::adapter) score("ref_log_prob", scoring(c_, true));
    if (c_.task.reference == Reference::model) reference();
    if (c_.task.has_critic()) critic();
    if (c_.task.has_critic() && c_.task.critic_parked != Parked::all)
      result_.memory.peak_reserved = std::max(result_.memory.peak_reserved, cached());
    TaskPhase update = begun("update", engine_.asleep);
    update.planned = true;
    update.allocated = result_.memory.peak_allocated;
    update.reserved = result_.memory.peak_reserved;
    update.parameters = parameters_;
    update.optimizer_states = states_;
    update.largest = largest_of(result_);
    finish(std::move(update));
    if (c_.verl() && c_.task.rollout == Rollout::vllm) update_weights();
    decide();
  }

 private:
  [[nodiscard]] bool parks_states() const { return c_.task.parked != Parked::none; }
  [[nodiscard]] bool parks_all() const { return c_.task.parked == Parked::all; }
  /// What stays between micro-batches where nothing else is there.
  [[nodiscard]] std::int64_t staying(bool with_parameters) const {
    return result_.memory.resident - (with_parameters ? 0 : parameters_) -
           (parks_states() ? states_ : 0);
  }
  [[nodiscard]] std::int64_t waiting_states() const { return parks_states() ? 0 : states_; }

  [[nodiscard]] static TaskPhase begun(std::string name, std::int64_t engine) {
    TaskPhase phase;
    phase.name = std::move(name);
    phase.engine = engine;
    return phase;
  }
  void finish(TaskPhase phase) {
    const profile::Fit& fit = result_.fit;
    if (phase.critic == 0) phase.critic = c_.task.waiting.bytes();
    phase.device = phase.reserved + fit.context + fit.communication + phase.engine;
    result_.task_phases.push_back(std::move(phase));
  }

  /// Before an engine wakes up; TRL's trainer keeps its cache without a sleep mode.
  [[nodiscard]] bool empties_cache() const { return c_.verl() || c_.task.engine_sleep > 0; }

  /// What the trainer has while another process, or generate, writes.
  void rollout() {
    TaskPhase phase = begun("rollout", engine_.awake);
    phase.parameters = parks_all() ? 0 : parameters_;
    phase.optimizer_states = waiting_states();
    phase.allocated = std::max(staying(!parks_all()), result_.fit.generation);
    phase.reserved =
        empties_cache() ? phase.allocated : std::max(phase.allocated, result_.memory.peak_reserved);
    finish(std::move(phase));
  }

  /// verl and RLOOTrainer compute them always; GRPOTrainer to correct for what an engine samples
  /// from.
  [[nodiscard]] bool scores() const {
    return c_.verl() || c_.task.kind == Task::rloo ||
           (!c_.task.distills() && c_.task.rollout != Rollout::generate);
  }

  /// Whether such a forward is planned; why not is told.
  [[nodiscard]] bool takes(const std::string& name, const StepConfig& config) {
    std::string why;
    if (const passes::Exclusion* excluded = passes::find_exclusion(result_.model, config))
      why = excluded->reason;
    else if (config.layout.zero3() && result_.config.adapters.used())
      why = "what backward has left whole of a frozen base under ZeRO 3 was not looked at yet";
    if (why.empty()) return true;
    result_.assumptions.push_back(fmt::format("the phase {} is not planned: {}", name, why));
    return false;
  }

  /// Shards that are the host's are in no figure of such a plan.
  void score(std::string name, const StepConfig& config) {
    if (!takes(name, config)) return;
    const profile::Profile plan = plan_rank(result_.model, config, detail_).profile;
    TaskPhase phase = begun(std::move(name), engine_.asleep);
    phase.planned = true;
    phase.parameters = at_peak(plan, Category::parameters);
    phase.optimizer_states = waiting_states();
    // ZeRO's fp32 partitions are in either plan.
    add(phase, plan, phase.optimizer_states - at_peak(plan, Category::optimizer_states));
    finish(std::move(phase));
  }

  /// A plan of forwards alone, and what is there beside it; autograd's thread, which it does not
  /// have, keeps its cuBLAS workspace.
  void add(TaskPhase& phase, const profile::Profile& plan, std::int64_t beside) const {
    beside +=
        std::max<std::int64_t>(0, result_.memory.cublas_workspace - plan.memory.cublas_workspace);
    phase.allocated = plan.memory.peak_allocated + beside;
    phase.reserved = plan.memory.peak_reserved + beside;
    if (!empties_cache()) phase.reserved = std::max(phase.reserved, result_.memory.peak_reserved);
    phase.largest = largest_of(plan);
  }

  void reference() {
    if (!c_.verl()) return score("ref_log_prob", scoring(c_, true));
    const StepConfig config = of_reference(scoring(c_, true));
    if (!takes("ref_log_prob", config)) return;
    const profile::Profile plan = plan_rank(result_.model, config, detail_).profile;
    TaskPhase phase = begun("ref_log_prob", engine_.asleep);
    phase.planned = c_.layout.gathers();
    phase.parameters = parks_all() ? 0 : parameters_;
    phase.optimizer_states = waiting_states();
    // FSDP1's shards come from the host a unit at a time: not all are there at once.
    const std::int64_t shards = c_.layout.gathers() ? 0 : at_peak(plan, Category::parameters);
    const std::int64_t beside = phase.parameters + phase.optimizer_states - shards;
    if (c_.layout.gathers()) {
      add(phase, plan, beside);
    } else {
      // The actor's root keeps what it gathered for its own log-probabilities, and the reference's
      // what it did; its shard is moved and cast again.
      const std::int64_t root = at_peak(result_, Category::reference_parameters),
                         compute = size_of(c_.precision.compute_dtype),
                         stored = size_of(c_.precision.param_dtype),
                         moved = root / compute / passes::fsdp_shards(c_) * (stored + compute);
      add(phase, plan, beside + root);
      phase.allocated = std::max(phase.allocated, staying(!parks_all()) + root + moved);
      phase.reserved = std::max(phase.reserved, phase.allocated);
    }
    finish(std::move(phase));
  }

  /// Its values of what was written, then its update; the actor waits, with what FSDP1's root has
  /// left whole since it computed log-probabilities.
  void critic() {
    const model::ModelSpec& model = model::critics_model(result_.model, c_);
    StepConfig update = actors_critic(c_);
    update.task.waiting = {parks_all() ? 0 : parameters_, waiting_states(),
                           left_whole(result_.model, scoring(c_, false)) +
                               at_peak(result_, Category::reference_parameters)};
    StepConfig values = scoring(update, false);
    values.run.batch = values.run.packing = update.run.batch;
    critics_phase("values", model, values, parks_all());
    critics_phase("update_critic", model, update, update.task.parked == Parked::all);
  }

  /// What the phase before has left in the allocator's cache, if it is planned op by op.
  [[nodiscard]] std::int64_t cached() const {
    const TaskPhase& before = result_.task_phases.back();
    return before.planned ? before.reserved : 0;
  }

  /// `emptied`: the phase before has moved parameters to the host, and then let go of its cache.
  void critics_phase(std::string name, const model::ModelSpec& model, const StepConfig& config,
                     bool emptied) {
    const profile::Profile plan = plan_rank(model, config, detail_).profile;
    TaskPhase phase = begun(std::move(name), engine_.asleep);
    phase.planned = true;
    phase.parameters = config.task.waiting.parameters;
    phase.optimizer_states = config.task.waiting.optimizer_states;
    const std::int64_t states = config.task.scores() && config.task.parked == Parked::none
                                    ? c_.task.waiting.optimizer_states
                                    : 0;
    phase.critic =
        at_peak(plan, Category::parameters) + at_peak(plan, Category::optimizer_states) + states;
    add(phase, plan, states);
    if (!emptied) phase.reserved = std::max(phase.reserved, cached());
    finish(std::move(phase));
  }

  /// What the trainer makes of its shards to hand its weights over, one after another
  /// (workers/engine/fsdp/transformer_impl.py, get_per_tensor_param). FSDP2: a whole parameter,
  /// beside the one before. FSDP1: its sharded state is each unit gathered in turn, the root last,
  /// of which every parameter's part is copied, a tied one's twice; then a whole parameter.
  [[nodiscard]] std::int64_t handed_over() const {
    const model::ModelSpec& m = result_.model;
    const std::int64_t element = size_of(c_.precision.param_dtype),
                       table = m.vocab * m.hidden * element;
    const std::int64_t ranks = passes::fsdp_shards(c_);
    if (c_.adapters.used()) return 0;  // the adapters alone
    if (!c_.layout.gathers())
      return (m.tied_embeddings ? table + table / ranks : 2 * table) + parameters_ + table;
    const std::int64_t next = m.hidden * m.heads * m.head_dim * element;
    return table + next + (parks_all() ? table / ranks : 0);
  }

  /// The engine has its weights, and no blocks of keys and values yet; the trainer copies its
  /// weights into a bucket.
  void update_weights() {
    const std::int64_t awake = engine_.asleep + engine_weights(result_.model, c_);
    TaskPhase phase = begun("update_weights", std::min(engine_.awake, awake));
    const bool stays = parks_all() && c_.layout.gathers();  // each shard is moved by itself
    phase.parameters = stays ? 0 : parameters_;
    phase.optimizer_states = waiting_states();
    phase.allocated = staying(!stays) + handed_over() + weights_bucket;
    phase.reserved = phase.allocated;
    finish(std::move(phase));
  }

  /// Every phase has to fit. What is cached beyond what is allocated can be released.
  void decide() {
    profile::Fit& fit = result_.fit;
    for (const TaskPhase& phase : result_.task_phases) {
      if (phase.name == "update") continue;  // decided by the allocator's replica
      const std::int64_t required = phase.required(fit);
      if (required <= fit.required) continue;
      fit.required = required;
      fit.fits = fit.fits && required <= fit.usable;
    }
  }

  profile::Profile& result_;
  bool detail_;
  const StepConfig& c_;
  RolloutEngine engine_;
  std::int64_t states_, parameters_;
};

}  // namespace

void add_task_phases(profile::Profile& result, bool detail) {
  if (result.config.task.online()) Phases(result, detail).add_all();
}

}  // namespace ac_advisor::advise
