// verl's GRPO and PPO on its FSDP workers (0.9.1): the overrides of `python3 -m
// verl.trainer.main_ppo`, in the script that starts it or as YAML. What the keys do:
// trainer/ppo/ray_trainer.py, workers/engine_workers.py, workers/engine/fsdp/transformer_impl.py,
// workers/config/*.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "verl_keys.hpp"

namespace ac_advisor::intake {
namespace {

using namespace verl_keys;

bool detects(const Node& file) {
  return std::any_of(file.members.begin(), file.members.end(), [](const Member& member) {
    return member.key == "actor_rollout_ref" || member.key.starts_with("actor_rollout_ref.");
  });
}

/// Of other workers than FSDP's, and of configurations beside verl's own, nothing is known.
void read_worker(Keys& keys) {
  constexpr const char* name = "--config-name";
  const std::string config = keys.text(name).value_or("ppo_trainer");
  for (const char* folder : {"--config-path", "--config-dir"}) static_cast<void>(keys.node(folder));
  if (config.find("megatron") != std::string::npos)
    keys.refuse(name, "Megatron's worker is not planned, FSDP's is");
  if (config != "ppo_trainer" && config != "ppo_trainer.yaml")
    static_cast<void>(
        keys.unplanned(name, "what that file sets is not read: ppo_trainer's defaults are known"));
  if (keys.text("model_engine").value_or("dp") != "dp")
    keys.refuse("model_engine", "FSDP's worker is planned, dp");
  for (const char* other : {"megatron", "veomni", "torchtitan", "automodel"})
    if (const auto theirs = keys.within(actor(other) + "."); !theirs.empty())
      keys.refuse(theirs.front(), "FSDP's worker is planned: actor.strategy fsdp or fsdp2");
}

/// trainer/ppo/utils.py, need_critic: critic.enable, else GAE's need of one.
void read_estimator(Keys& keys) {
  constexpr const char* key = "algorithm.adv_estimator";
  constexpr const char* enable = "critic.enable";
  constexpr std::string_view without[] = {"grpo",
                                          "grpo_passk",
                                          "grpo_vectorized",
                                          "reinforce_plus_plus",
                                          "reinforce_plus_plus_baseline",
                                          "remax",
                                          "rloo",
                                          "rloo_vectorized",
                                          "opo",
                                          "gpg",
                                          "gdpo"};
  const std::string name = keys.text(key).value_or("gae");
  const bool critic = keys.text(enable) ? keys.flag(enable) : name == "gae";
  if (!critic && std::find(std::begin(without), std::end(without), name) == std::end(without) &&
      name != "gae")
    static_cast<void>(keys.unplanned(key, "the step of grpo and its like is planned"));
  keys.option(critic && keys.in_file(enable) ? enable : key, "--task", critic ? "ppo" : "grpo");
}

/// workers/engine/fsdp/utils.py, create_device_mesh: fsdp_size below the ranks is a mesh of two
/// dimensions. workers/config/actor.py: actor.strategy takes the place of fsdp_config's.
void read_shard(Keys& keys, std::int64_t world) {
  const std::string key = actor("strategy"), size = fsdp("fsdp_size");
  const std::string strategy = keys.text(key).value_or("fsdp");
  if (strategy != "fsdp" && strategy != "fsdp2")
    keys.refuse(key, "FSDP's worker is planned: fsdp or fsdp2");
  const bool first = strategy == "fsdp";
  if (const std::string within = keys.text(fsdp("strategy")).value_or("fsdp");
      keys.in_file(fsdp("strategy")) && within != strategy)
    keys.assume(fmt::format("{}: actor.strategy, {}, takes its place", fsdp("strategy"), strategy));
  const std::int64_t ranks = keys.left_open(size, "--shard") ? -1 : keys.number(size).value_or(-1);
  const bool whole = ranks < 0 || ranks >= world;
  if (!whole && !keys.by_hand("--shard") && (ranks == 0 || world % ranks != 0))
    keys.refuse(size, fmt::format("does not divide {} ranks", world));
  if (!whole && first)
    static_cast<void>(keys.unplanned(size, "FSDP1's hybrid shards; actor.strategy fsdp2 has them"));
  if (!whole && !first)
    keys.option(size, "--shard", fmt::format("hsdp:{}", ranks));
  else
    keys.option(key, "--shard", first ? "fsdp1" : "fsdp2");
  const std::string reshard = fsdp("reshard_after_forward");
  if (!keys.left_open(reshard, "--reshard-after-forward") && !keys.flag(reshard)) {
    if (first)
      static_cast<void>(keys.unplanned(reshard, "FSDP1's SHARD_GRAD_OP"));
    else
      keys.option(reshard, "--reshard-after-forward", "false");
  }
  const std::string sync = fsdp("use_no_sync_for_gradient_accumulation");
  if (!keys.left_open(sync, "--no-sync") && keys.flag(sync)) keys.option(sync, "--no-sync");
}

void read_offload(Keys& keys) {
  const std::string parameters = fsdp("param_offload"), states = fsdp("optimizer_offload");
  const bool of_all = keys.left_open(parameters, "--phase-offload"),
             of_states = keys.left_open(states, "--phase-offload");
  if (of_all || of_states) return;
  const bool all = keys.flag(parameters), optimizer = keys.flag(states);
  if (all && optimizer)
    keys.option(parameters, "--phase-offload", "all");
  else if (optimizer)
    keys.option(states, "--phase-offload", "optimizer");
  else if (all)
    static_cast<void>(
        keys.unplanned(parameters,
                       "parameters on the host beside optimizer states on the device; "
                       "optimizer_offload: True moves both"));
}

/// verl/utils/torch_dtypes.py
std::string dtype_of(Keys& keys, const std::string& key, const char* otherwise) {
  const std::string name = keys.text(key).value_or(otherwise);
  if (name == "bf16" || name == "bfloat16") return "bf16";
  if (name != "fp32" && name != "float32" && name != "float" && name != "32")
    keys.refuse(key, "fp32 and bf16 are planned");
  return "fp32";
}

void read_precision(Keys& keys) {
  const std::string key = fsdp("model_dtype");
  if (!keys.left_open(key, "--param-dtype"))
    keys.option(key, "--param-dtype", dtype_of(keys, key, "fp32"));
  for (const auto& [name, option] : {std::pair{"mixed_precision.param_dtype", "--compute-dtype"},
                                     std::pair{"mixed_precision.reduce_dtype", "--reduce-dtype"}})
    if (keys.in_file(fsdp(name)) && !keys.left_open(fsdp(name), option))
      keys.option(fsdp(name), option, dtype_of(keys, fsdp(name), "bf16"));
}

/// Keys of a section that goes on as it is: `known` ones apart they are not planned.
void refuse_others(Keys& keys, const std::string& section,
                   std::initializer_list<std::string_view> known, const char* why) {
  if (const Node* node = keys.node(section); node != nullptr && node->kind != Node::Kind::map &&
                                             !node->shown().empty() && node->shown() != "{}")
    static_cast<void>(keys.unplanned(section, why));
  for (const std::string& key : keys.within(section + "."))
    if (std::find(known.begin(), known.end(), std::string_view(key).substr(section.size() + 1)) ==
        known.end())
      static_cast<void>(keys.unplanned(key, why));
}

void read_model(Keys& keys) {
  const std::string path = model("path"), padding = model("use_remove_padding"),
                    ac = model("enable_gradient_checkpointing"),
                    attention = model("override_config.attn_implementation");
  read_model_path(keys, path);
  if (!keys.flag(padding))
    static_cast<void>(keys.unplanned(padding, "rows with padding; True packs them"));
  if (!keys.left_open(ac, "--ac")) keys.option(ac, "--ac", keys.flag(ac) ? "full" : "none");
  refuse_others(keys, model("override_config"), {"attn_implementation", "max_position_embeddings"},
                "give the changed model's config.json with --model");
  if (keys.in_file(attention) && !keys.left_open(attention, "--attn")) {
    const std::string kernel = keys.text(attention).value_or("");
    if (kernel == "flash_attention_2")
      keys.option(attention, "--attn", "flash");
    else
      static_cast<void>(keys.unplanned(attention, "flash_attention_2 is planned"));
  }
}

/// transformer_impl.py, _build_lora_module: adapters have the base's dtype.
void read_adapters(Keys& keys) {
  const std::string rank = model("lora_rank"), targets = model("target_modules");
  if (!keys.left_open(rank, "--lora")) {
    const std::int64_t wide = keys.number(rank).value_or(0);
    if (wide < 0) keys.refuse(rank, "is 0 or more");
    if (wide > 0) keys.option(rank, "--lora", std::to_string(wide));
  }
  if (keys.value_of("--lora").empty()) return;
  const std::string dtype = keys.value_of("--param-dtype");
  if (dtype == "fp32" || dtype == "bf16") keys.option(rank, "--lora-dtype", dtype);
  if (keys.left_open(targets, "--lora-targets")) return;
  const std::vector<std::string> names = keys.words(targets);
  const bool plain_names = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "all-linear" || name.find_first_not_of(
                                       "abcdefghijklmnopqrstuvwxyz"
                                       "0123456789_.") == std::string::npos;
  });
  if (!plain_names)
    static_cast<void>(keys.unplanned(targets, "this pattern is not read"));
  else
    keys.option(targets, "--lora-targets",
                names.empty() ? "all-linear" : fmt::format("{}", fmt::join(names, ",")));
}

/// workers/config/optimizer.py, build_optimizer; the gradients' norm is clipped always.
void read_optimizer_of(Keys& keys) {
  const std::string key = actor("optim.optimizer"), clip = actor("optim.clip_grad"),
                    others = actor("optim.override_optimizer_config");
  if (!keys.left_open(clip, "--clip-grad"))
    keys.option(clip, "--clip-grad", keys.text(clip).value_or("1.0"));
  refuse_others(keys, others, {"fused", "eps", "betas"}, "the optimizer's argument is not read");
  if (keys.left_open(key, "--optimizer")) return;
  const std::string name =
      fmt::format("{}.{}", keys.text(actor("optim.optimizer_impl")).value_or("torch.optim"),
                  keys.text(key).value_or("AdamW"));
  if (name == "torch.optim.AdamW" || name == "torch.optim.Adam") {
    const bool fused = keys.flag(others + ".fused");
    return keys.option(key, "--optimizer", fused ? "adamw" : "adamw-foreach");
  }
  if (name == "torch.optim.SGD") return keys.option(key, "--optimizer", "sgd");
  read_optimizer_class(keys, key, name);
}

/// trainer_base.py, _update_actor: the entropy is computed, and its backward, for either.
void read_entropy(Keys& keys) {
  const std::string weight = actor("entropy_coeff"), computed = actor("calculate_entropy");
  if (keys.left_open(weight, "--entropy-loss") || keys.left_open(computed, "--entropy-loss"))
    return;
  const std::string text = keys.text(weight).value_or("0");
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) keys.refuse(weight, "is no number");
  const bool asked = keys.flag(computed);
  if (number != 0 || asked) keys.option(number != 0 ? weight : computed, "--entropy-loss");
}

/// trainer/ppo/utils.py, need_reference_policy; with adapters it is the actor without them. Whether
/// it is a worker of its own.
bool read_reference(Keys& keys) {
  const std::string loss = actor("use_kl_loss");
  constexpr const char* reward = "algorithm.use_kl_in_reward";
  const bool of_loss = keys.left_open(loss, "--ref"), of_reward = keys.left_open(reward, "--ref");
  if (of_loss || of_reward) return keys.value_of("--ref") == "model";
  const bool in_loss = keys.flag(loss), in_reward = keys.flag(reward);
  const bool any = in_loss || in_reward;
  const bool adapted = !keys.value_of("--lora").empty();
  keys.option(in_reward && !in_loss ? std::string(reward) : loss, "--ref",
              !any      ? "none"
              : adapted ? "adapter"
                        : "model");
  if (in_reward && !in_loss)
    keys.assume(std::string(reward) + ": the loss is planned as if it had the divergence, too");
  return any && !adapted;
}

/// vllm_async_server.py, _resolve_sleep_level; free_cache_engine false leaves the engine awake.
void read_rollout(Keys& keys, std::int64_t world) {
  const std::string name = rollout("name"), ranks = rollout("tensor_model_parallel_size"),
                    share = rollout("gpu_memory_utilization"), frees = rollout("free_cache_engine"),
                    sleeps = rollout("enable_sleep_mode");
  const std::string bucket = rollout("checkpoint_engine.update_weights_bucket_megabytes");
  if (keys.number(bucket).value_or(2048) != 2048)
    keys.assume(bucket + ": 2048 MiB are planned in the phase update_weights");
  bool open = false;
  for (const std::string& key : {name, ranks, share, frees, sleeps})
    open |= keys.left_open(key, "--rollout");
  if (open) return;
  const std::string engine = keys.text(name).value_or("???");
  if (engine == "???") {
    keys.resolved(name, "vllm");
    keys.assume(name + ": none, which verl 0.9.1 asks for; vllm is planned");
  } else if (engine != "vllm") {
    static_cast<void>(keys.unplanned(name, "vLLM's memory is planned, of others nothing is known"));
  }
  const std::int64_t parallel = keys.count(ranks, 2);
  if (world % parallel != 0 && !keys.by_hand("--rollout"))
    keys.refuse(ranks, fmt::format("does not divide {} ranks", world));
  const std::string part = keys.text(share).value_or("0.5");
  double number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc{} || end != part.data() + part.size() || !(number > 0.0 && number < 1.0))
    keys.refuse(share, "is above 0 and below 1");
  const bool awake = !keys.flag(frees) || !keys.flag(sleeps);
  const bool adapters = !keys.value_of("--lora").empty() && !keys.flag(model("lora.merge"));
  keys.option(share, "--rollout",
              fmt::format("vllm:tp{},util={},sleep={}", parallel, part,
                          awake      ? 0
                          : adapters ? 1
                                     : 2));
}

void read(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "verl");
  read_worker(keys);
  read_estimator(keys);
  read_model(keys);
  const std::int64_t world = read_world(keys), length = read_lengths(keys);
  read_batches(keys, world, length);
  read_shard(keys, world);
  read_offload(keys);
  read_precision(keys);
  read_adapters(keys);
  read_score_batch(keys, read_reference(keys), length);
  read_entropy(keys);
  read_optimizer_of(keys);
  read_rollout(keys, world);
  if (keys.value_of("--task") == "ppo") read_critic(keys, length);
}

}  // namespace

const Tool verl{"verl", detects, read, true};

}  // namespace ac_advisor::intake
