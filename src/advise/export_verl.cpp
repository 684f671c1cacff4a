// verl's overrides. Keys: verl v0.9.1, trainer/config/ppo_trainer.yaml and what it composes
// (actor, ref, rollout, engine, optim, model, data), which workers/config/*.py check.
#include <fmt/format.h>

#include "export_target.hpp"

namespace ac_advisor::advise::exports {
namespace {

constexpr std::int64_t usual_group = 8, usual_node = 8;

/// Completions of a prompt, where none was said as many of a step's rows as make whole groups.
std::int64_t group(const Setting& s) {
  if (s.c.task.group > 0) return s.c.task.group;
  std::int64_t n = usual_group;
  while (s.global_batch() % n != 0) n /= 2;
  return n;
}

std::int64_t scored_rows(const Setting& s) {
  return s.c.task.score_batch > 0 ? s.c.task.score_batch : s.c.run.batch;
}

std::string truth(bool on) { return on ? "True" : "False"; }

std::string sharding(const Setting& s) {
  const std::string strategy = s.gathers() ? "fsdp2" : "fsdp";
  std::string text = fmt::format("actor_rollout_ref.actor.strategy={}\n", strategy);
  if (s.c.layout.shard == Sharding::hsdp)
    text +=
        fmt::format("actor_rollout_ref.actor.fsdp_config.fsdp_size={}\n", s.c.layout.hsdp_shards);
  return text;
}

std::string optimizer(const Setting& s) {
  if (s.c.optimizer.kind != Optimizer::adamw_foreach)
    s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
             "it makes torch.optim.AdamW, without fused; use --optimizer adamw-foreach");
  if (s.c.optimizer.clip_grad <= 0)
    s.refuse("--clip-grad 0", "it clips always; give a norm, such as --clip-grad 1.0");
  return fmt::format("actor_rollout_ref.actor.optim.clip_grad={}\n",
                     decimal(s.c.optimizer.clip_grad));
}

std::string adapters(const Setting& s) {
  const Adapters& a = s.c.adapters;
  if (!a.used()) return "";
  if (a.of_another_method() || a.quantized() || a.dora || a.dropout > 0)
    s.refuse("--adapter, --quantize, --dora or --lora-dropout",
             "its adapters are LoRA's without dropout; use --lora RANK alone");
  return fmt::format(
      "actor_rollout_ref.model.lora_rank={}\nactor_rollout_ref.model.lora_alpha={}\n"
      "actor_rollout_ref.model.target_modules={}\n",
      a.rank, 2 * a.rank,
      lora_targets_text(s.c) == "all-linear" ? "all-linear" : "[" + lora_targets_text(s.c) + "]");
}

std::string engine(const Setting& s) {
  const TaskChoice& task = s.c.task;
  if (task.rollout != Rollout::vllm)
    s.refuse("--rollout " + rollout_option(s.c),
             "its engine shares the trainer's devices; use --rollout vllm:tpN,util=SHARE,sleep=1");
  return fmt::format(
      "actor_rollout_ref.rollout.name=vllm\n"
      "actor_rollout_ref.rollout.tensor_model_parallel_size={}\n"
      "actor_rollout_ref.rollout.gpu_memory_utilization={}\n"
      "actor_rollout_ref.rollout.free_cache_engine={}\n"
      "actor_rollout_ref.rollout.n={}\n"
      "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={}\n",
      task.engine_ranks, task.engine_share, truth(task.engine_sleep > 0), group(s), scored_rows(s));
}

std::string reference(const Setting& s) {
  const TaskChoice& task = s.c.task;
  std::string text = fmt::format("actor_rollout_ref.actor.use_kl_loss={}\n",
                                 truth(task.reference != Reference::none));
  if (task.reference != Reference::none)
    text +=
        fmt::format("actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={}\n", scored_rows(s));
  return text;
}

/// What the actor has, too: ppo_infer_max_token_len_per_gpu is no key of verl's YAML.
std::string critic(const Setting& s) {
  const TaskChoice& task = s.c.task;
  if (!task.has_critic()) return "";
  std::string text = fmt::format(
      "critic.model.path={}\ncritic.strategy={}\n"
      "critic.model.enable_gradient_checkpointing={}\n"
      "critic.ppo_micro_batch_size_per_gpu={}\ncritic.fsdp.model_dtype={}\n"
      "critic.fsdp.param_offload={}\ncritic.fsdp.optimizer_offload={}\n"
      "critic.fsdp.reshard_after_forward={}\n"
      "critic.fsdp.use_no_sync_for_gradient_accumulation={}\n",
      task.critic.name.empty() ? s.quoted_name() : Setting::quoted(task.critic.name),
      s.gathers() ? "fsdp2" : "fsdp", truth(s.c.memory.ac == AcMode::full), s.c.run.batch,
      to_option(s.c.precision.param_dtype), truth(task.critic_parked == Parked::all),
      truth(task.critic_parked != Parked::none), truth(s.c.layout.reshard_after_forward),
      truth(s.c.layout.no_sync));
  if (s.c.layout.shard == Sharding::hsdp)
    text += fmt::format("critic.fsdp.fsdp_size={}\n", s.c.layout.hsdp_shards);
  if (task.critic_batch > 0)
    text += fmt::format("+critic.ppo_infer_max_token_len_per_gpu={}\n",
                        task.critic_batch * s.c.run.seq);
  return text;
}

void write(const Setting& s, ExportResult& out) {
  const TaskChoice& task = s.c.task;
  const AcMode ac = s.c.memory.ac;
  if (ac != AcMode::none && ac != AcMode::full)
    s.refuse(s.ac(), "it checkpoints each block, or none; use --ac full");
  if (ac == AcMode::full && s.c.memory.scope != AcScope::block)
    s.refuse("--ac-scope submodule", "it checkpoints each block; use --ac-scope block");
  if (s.c.precision.compute_dtype != DType::bf16 || s.c.precision.reduce_dtype != DType::f32)
    s.refuse("--compute-dtype or --reduce-dtype",
             "its mixed precision is bf16, reduced in fp32; leave them out");
  const std::int64_t world = s.c.layout.world, nodes = (world + usual_node - 1) / usual_node;
  if (world % nodes != 0)
    s.refuse("--world " + std::to_string(world), "each node has as many ranks; use a multiple");
  const std::int64_t prompts = s.global_batch() / group(s);
  const std::string rows = fmt::format(
      "data.max_prompt_length={}\ndata.max_response_length={}\ndata.train_batch_size={}\n"
      "actor_rollout_ref.actor.ppo_mini_batch_size={}\n"
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={}\n"
      "actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation={}\n",
      task.prompt, s.c.run.seq - task.prompt, prompts, prompts, s.c.run.batch,
      truth(s.c.layout.no_sync));
  const std::string lines =
      fmt::format("algorithm.adv_estimator={}\nactor_rollout_ref.model.path={}\n",
                  task.has_critic() ? "gae" : "grpo", s.quoted_name()) +
      rows + sharding(s) +
      fmt::format(
          "actor_rollout_ref.actor.fsdp_config.model_dtype={}\n"
          "actor_rollout_ref.actor.fsdp_config.param_offload={}\n"
          "actor_rollout_ref.actor.fsdp_config.optimizer_offload={}\n"
          "actor_rollout_ref.actor.fsdp_config.reshard_after_forward={}\n"
          "actor_rollout_ref.model.enable_gradient_checkpointing={}\n"
          "actor_rollout_ref.actor.entropy_coeff={}\n",
          to_option(s.c.precision.param_dtype), truth(task.parked == Parked::all),
          truth(task.parked != Parked::none), truth(s.c.layout.reshard_after_forward),
          truth(ac == AcMode::full), task.entropy_loss ? "0.001" : "0") +
      optimizer(s) + adapters(s) + reference(s) + engine(s) + critic(s) +
      fmt::format("trainer.nnodes={}\ntrainer.n_gpus_per_node={}\n", nodes, world / nodes);
  out.text = "python3 -m verl.trainer.main_ppo";
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    out.text += " \\\n  " + lines.substr(at, end - at);
    at = end + 1;
  }
  out.text += "\n";
  out.notes.emplace_back(
      "add data.train_files, data.val_files and a reward; train_batch_size is one mini-batch, and "
      "a "
      "multiple of it changes no memory of the trainer's");
  if (task.group == 0)
    out.notes.push_back(fmt::format("--group was not given: {} completions of a prompt", group(s)));
}

constexpr std::string_view says[] = {"task",         "ref",           "prompt",
                                     "completion",   "group",         "score_batch",
                                     "rollout",      "phase_offload", "entropy_loss",
                                     "batch",        "seq",           "packing",
                                     "grad_accum",   "world",         "shard",
                                     "critic",       "critic_batch",  "critic_offload",
                                     "ac",           "ac_scope",      "optimizer",
                                     "clip_grad",    "lora",          "adapter",
                                     "lora_targets", "lora_dropout",  "dora",
                                     "quantize",     "param_dtype",   "compute_dtype",
                                     "reduce_dtype", "no_sync",       "reshard_after_forward"};

}  // namespace

const Target verl{"verl", "verl 0.9.1", write, says};

}  // namespace ac_advisor::advise::exports
