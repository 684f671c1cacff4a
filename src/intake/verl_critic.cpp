// verl's critic (0.9.1): trainer/ppo/v1/trainer_base.py, _init_workers; trainer/ppo/ray_trainer.py
// with trainer.use_v1 False; workers/config/critic.py.
#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/step_config.hpp"
#include "verl_keys.hpp"

namespace ac_advisor::intake::verl_keys {
namespace {

std::string critic(std::string_view key) { return fmt::format("critic.{}", key); }

/// What both workers have of their own, and one option says of both.
struct Shared {
  std::string_view of_critic, of_actor;
  const char* option;
};
constexpr Shared shared[] = {
    {"strategy", "actor.strategy", "--shard"},
    {"fsdp.fsdp_size", "actor.fsdp_config.fsdp_size", "--shard"},
    {"fsdp.reshard_after_forward", "actor.fsdp_config.reshard_after_forward",
     "--reshard-after-forward"},
    {"fsdp.model_dtype", "actor.fsdp_config.model_dtype", "--param-dtype"},
    {"fsdp.use_no_sync_for_gradient_accumulation",
     "actor.fsdp_config.use_no_sync_for_gradient_accumulation", "--no-sync"},
    {"fsdp.mixed_precision.param_dtype", "actor.fsdp_config.mixed_precision.param_dtype",
     "--compute-dtype"},
    {"fsdp.mixed_precision.reduce_dtype", "actor.fsdp_config.mixed_precision.reduce_dtype",
     "--reduce-dtype"},
    {"model.enable_gradient_checkpointing", "model.enable_gradient_checkpointing", "--ac"},
    {"optim.optimizer", "actor.optim.optimizer", "--optimizer"},
    {"optim.optimizer_impl", "actor.optim.optimizer_impl", "--optimizer"},
};

/// Where it is not at its default.
struct Other {
  std::string_view key, otherwise;
  const char* why;
};
constexpr Other others[] = {
    {"model.use_remove_padding", "True", "rows with padding; True packs them"},
    {"model.lora_rank", "0", "a critic with adapters"},
    {"model.lora_adapter_path", "", "a critic with adapters"},
    {"model.hf_config_path", "", "give that configuration with --critic"},
    {"model.external_lib", "", "what it changes is not read"},
    {"model.enable_activation_offload", "False", "verl's own offload of activations"},
    {"model.use_liger", "False", "Liger's kernels in verl's worker"},
    {"model.tiled_mlp.enabled", "False", "MLPs in tiles"},
    {"model.mtp.enable", "False", "multi-token prediction"},
    {"ulysses_sequence_parallel_size", "1", "Ulysses' sequences on several ranks"},
    {"fsdp.ulysses_sequence_parallel_size", "1", "Ulysses' sequences on several ranks"},
    {"fsdp.offload_policy", "False", "FSDP2's CPUOffloadPolicy in verl's worker"},
    {"fsdp.forward_prefetch", "False", "a prefetched unit in forward"},
    {"fsdp.full_determinism", "False", "deterministic kernels"},
    {"fsdp.forward_only", "False", "a critic is trained"},
    {"fsdp.pad_to_length", "False", "rows that are padded to a length"},
    {"fsdp.qat.enable", "False", "quantization-aware training"},
    {"fsdp.wrap_policy.min_num_params", "0", "units by their size"},
    {"fsdp.wrap_policy.transformer_layer_cls_to_wrap", "", "units of other classes"},
};

std::string plain(const std::optional<std::string>& value) {
  const std::string word = value.value_or("");
  if (const std::optional<bool> truth = truth_of(word)) return *truth ? "True" : "False";
  return word == "null" || word == "None" ? "" : word;
}

void read_shared(Keys& keys) {
  for (const Shared& both : shared) {
    const std::string own = critic(both.of_critic),
                      actors = fmt::format("actor_rollout_ref.{}", both.of_actor);
    if (keys.by_hand(both.option)) {
      static_cast<void>(keys.node(own));
      continue;
    }
    if (!keys.in_file(own) && !keys.in_file(actors)) continue;
    if (const std::string wanted = plain(keys.text(actors)); plain(keys.text(own)) != wanted)
      static_cast<void>(keys.unplanned(
          own, fmt::format("the actor's is {}, and actor and critic are planned alike", wanted)));
  }
  for (const Other& other : others)
    if (const std::string key = critic(other.key);
        keys.in_file(key) && plain(keys.text(key)) != plain(std::string(other.otherwise)))
      static_cast<void>(keys.unplanned(key, other.why));
  for (const auto& [section, known, why] :
       {std::tuple{"model.override_config.", "attn_implementation max_position_embeddings",
                   "give the changed model's config.json with --critic"},
        std::tuple{"optim.override_optimizer_config.", "eps betas",
                   "the optimizer's argument is not read"}})
    for (const std::string& key : keys.within(critic(section)))
      if (std::string_view(known).find(std::string_view(key).substr(critic(section).size())) ==
          std::string_view::npos)
        static_cast<void>(keys.unplanned(key, why));
}

void read_critics_model(Keys& keys) {
  const std::string path = critic("model.path");
  if (keys.left_open(path, "--critic")) return;
  if (!keys.in_file(path)) {
    keys.resolved(path, keys.out().model);
    return keys.assume(path +
                       ": none, of which verl 0.9.1 makes ~/models/deepseek-llm-7b-chat; "
                       "the actor's model is planned");
  }
  const Node& named = *keys.node(path);
  const std::size_t slash = named.text.rfind('/');
  const bool open = !named.unset.empty() && slash != std::string::npos;  // as the actor's is read
  if (const std::string name = open ? named.text.substr(slash + 1) : named.text;
      name != keys.out().model)
    keys.option(path, "--critic", name);
}

/// Its micro-batches are dynamic, whatever it says: FSDPEngineConfig.use_dynamic_bsz is True and is
/// given no other value.
void read_critics_rows(Keys& keys, std::int64_t length) {
  const bool first = keys.flag("trainer.use_v1");
  const std::string tokens = critic(first ? "ppo_infer_max_token_len_per_gpu"
                                          : "ppo_max_token_len_per_gpu"),
                    mini = critic("ppo_mini_batch_size"), actors = actor("ppo_mini_batch_size"),
                    rows = critic("ppo_micro_batch_size_per_gpu");
  const bool dynamic = keys.in_file(critic("use_dynamic_bsz"))
                           ? keys.flag(critic("use_dynamic_bsz"))
                           : keys.flag(actor("use_dynamic_bsz"));
  const std::string before = critic("ppo_micro_batch_size");
  if (!dynamic && !keys.in_file(rows) && !keys.in_file(before))
    keys.refuse(rows, "none: verl asks for it unless critic.use_dynamic_bsz is true");
  for (const std::string& key :
       {rows, before,
        critic(first ? "ppo_max_token_len_per_gpu" : "ppo_infer_max_token_len_per_gpu")})
    if (keys.in_file(key)) {
      static_cast<void>(keys.node(key));
      keys.assume(fmt::format(
          "{}: without effect in verl 0.9.1, whose critic makes micro-batches of as many rows as "
          "{} tokens are, 32768 unless it is set",
          key, tokens));
    }
  if (keys.in_file(mini) && keys.count(mini, 256) != keys.count(actors, 256))
    static_cast<void>(keys.unplanned(mini, "an update of other rows than the actor's"));
  if (keys.left_open(tokens, "--critic-batch") || !keys.in_file(tokens)) return;
  const std::int64_t most = keys.count(tokens, critic_tokens);
  if (most < length)
    keys.refuse(tokens,
                fmt::format("verl asserts that a row, {} tokens at most, is no longer", length));
  keys.option(tokens, "--critic-batch", std::to_string(most / length));
}

void read_critics_offload(Keys& keys) {
  const std::string parameters = critic("fsdp.param_offload"),
                    states = critic("fsdp.optimizer_offload");
  const bool of_all = keys.left_open(parameters, "--critic-offload"),
             of_states = keys.left_open(states, "--critic-offload");
  if (of_all || of_states) return;
  const bool all = keys.flag(parameters), optimizer = keys.flag(states);
  if (all && !optimizer)
    static_cast<void>(
        keys.unplanned(parameters,
                       "parameters on the host beside optimizer states on the device; "
                       "optimizer_offload: True moves both"));
  keys.option(all ? parameters : states, "--critic-offload",
              all         ? "all"
              : optimizer ? "optimizer"
                          : "none");
}

}  // namespace

void read_critic(Keys& keys, std::int64_t length) {
  read_critics_model(keys);
  read_shared(keys);
  read_critics_rows(keys, length);
  read_critics_offload(keys);
}

}  // namespace ac_advisor::intake::verl_keys
