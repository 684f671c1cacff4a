// verl v0.9.1, trainer/ppo/v1/trainer_base.py: _init_workers, _step_once, _compute_values,
// _update_critic; utils/seqlen_balancing.py, rearrange_micro_batches.
#include "critic.hpp"

#include <algorithm>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "plan_rank.hpp"

namespace ac_advisor::advise {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

/// Its micro-batches are the fewest that hold no more tokens each than are allowed, balanced.
StepConfig actors_critic(const StepConfig& config) {
  StepConfig c = config;
  const std::int64_t rows = c.run.batch * c.run.grad_accum;
  const std::int64_t most = c.task.critic_batch > 0
                                ? c.task.critic_batch
                                : std::max<std::int64_t>(1, critic_tokens / c.run.seq);
  c.run.batch = ceil_div(rows, ceil_div(rows, most));
  c.run.grad_accum = ceil_div(rows, c.run.batch);
  c.run.packing = c.run.batch;
  c.task.of_critic = true;
  c.task.waiting = {};
  c.task.reference = Reference::none;
  c.task.entropy_loss = false;
  c.task.parked = c.task.critic_parked;
  c.adapters = {};
  return c;
}

WaitingWorker waiting_worker(const profile::Profile& plan, Parked parked) {
  WaitingWorker waits;
  if (parked != Parked::all) waits.parameters = at_peak(plan, profile::Category::parameters);
  if (parked == Parked::none)
    waits.optimizer_states = at_peak(plan, profile::Category::optimizer_states);
  return waits;
}

std::int64_t left_whole(const model::ModelSpec& model, const StepConfig& config) {
  if (config.layout.shard != Sharding::fsdp1) return 0;
  return passes::build_step(model, config).flat.back().numel *
         size_of(config.precision.compute_dtype);
}

bool misses_critic(const StepConfig& config) {
  const TaskChoice& task = config.task;
  return task.has_critic() && !task.of_critic && task.critic_parked != Parked::all &&
         task.waiting == WaitingWorker{};
}

StepConfig beside_critic(const model::ModelSpec& model, StepConfig config) {
  passes::validate(model, config);
  const profile::Profile critic =
      plan_rank(model::critics_model(model, config), actors_critic(config), false).profile;
  config.task.waiting = waiting_worker(critic, config.task.critic_parked);
  return config;
}

}  // namespace ac_advisor::advise
