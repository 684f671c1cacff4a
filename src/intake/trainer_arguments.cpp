// transformers.TrainingArguments (5.23.0), as TRL and LLaMA-Factory extend them.
#include <fmt/format.h>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

struct OptimizerName {
  std::string_view theirs, ours;
};

/// training_args.py, OptimizerNames, and trainer_optimizer.py: what each makes. adamw_torch leaves
/// `fused` out, and PyTorch's default on a GPU is foreach.
constexpr OptimizerName optimizers[] = {
    {"adamw_torch_fused", "adamw"},
    {"adamw_torch", "adamw-foreach"},
    {"adafactor", "adafactor"},
    {"adamw_torch_8bit", "adamw-8bit-torchao"},
    {"sgd", "sgd"},
    {"adamw_bnb_8bit", "adamw-8bit"},
    {"adamw_8bit", "adamw-8bit"},
    {"lion_32bit", "lion"},
    {"paged_adamw_32bit", "paged-adamw"},
    {"paged_adamw", "paged-adamw"},
    {"paged_adamw_8bit", "paged-adamw-8bit"},
};

void read_fsdp(Keys& keys) {
  const std::vector<std::string> words = keys.words("fsdp");
  if (words.empty()) return;
  if (words.size() == 1 && truth_of(words[0]) == false) return;
  if (keys.by_hand("--shard"))
    return keys.assume("fsdp: --shard by hand says how parameters are sharded");
  bool offloads = false;  // training_args.py, _apply_legacy_fsdp_to_config: cpu_offload
  for (const std::string& list : words) {
    offloads = offloads || list.find("offload") != std::string::npos;
    for (const char* word : {"hybrid_shard", "shard_grad_op", "no_shard"})
      if (list.find(word) != std::string::npos) {
        static_cast<void>(
            keys.unplanned("fsdp", std::string(word) + " of the Trainer is not planned"));
        return;
      }
  }
  const Node config =
      keys.in_file("fsdp_config") ? config_of(keys, "fsdp_config", "give --shard by hand") : Node{};
  /// With or without accelerate's prefix.
  const auto value = [&](const std::string& name) {
    for (const std::string& spelt : {name, "fsdp_" + name})
      if (const Node* given = config.find(spelt)) return given->text;
    return std::string();
  };
  const auto on = [&](const std::string& name, bool otherwise) {
    return truth_of(value(name)).value_or(otherwise);
  };
  const bool first = value("version") == "1";  // training_args.py: 2 is the default
  keys.option("fsdp", "--shard", first ? "fsdp1" : "fsdp2");
  if (on("activation_checkpointing", false) && !keys.by_hand("--ac"))
    static_cast<void>(
        keys.unplanned("fsdp_config", "activation_checkpointing: give --ac full by hand"));
  const bool in_config = on("cpu_offload", false) || on("offload_params", false);
  if (in_config || (offloads && value("cpu_offload").empty()))
    keys.option(in_config ? "fsdp_config" : "fsdp", "--offload", "parameters");
  if (!first && !on("reshard_after_forward", true))
    keys.option("fsdp_config", "--reshard-after-forward", "false");
  const std::string prefetch = value("backward_prefetch");
  if (first && !prefetch.empty())
    keys.option(
        "fsdp_config", "--backward-prefetch",
        prefetch.find("POST") != std::string::npos || prefetch.find("post") != std::string::npos
            ? "post"
        : prefetch.find("PRE") != std::string::npos || prefetch.find("pre") != std::string::npos
            ? "pre"
            : "none");
}

}  // namespace

void read_optimizer(Keys& keys, std::string_view key) {
  const std::string name = keys.text(key).value_or("adamw_torch_fused");
  for (const OptimizerName& optimizer : optimizers)
    if (optimizer.theirs == name)
      return keys.option(key, "--optimizer", std::string(optimizer.ours));
  static_cast<void>(keys.unplanned(key, "no optimizer of ours is this one"));
}

void read_optimization(Keys& keys, const char* clip) {
  read_optimizer(keys, "optim");
  keys.option("max_grad_norm", "--clip-grad", keys.text("max_grad_norm").value_or(clip));
  if (keys.flag("torch_compile"))
    static_cast<void>(
        keys.unplanned("torch_compile", "the Trainer compiles the whole model without its loss"));
  if (keys.flag("use_liger_kernel"))
    static_cast<void>(keys.unplanned("use_liger_kernel",
                                     "Liger's kernels are planned with --framework liger alone"));
}

void read_trainer_arguments(Keys& keys) {
  keys.option("per_device_train_batch_size", "--batch",
              std::to_string(keys.number("per_device_train_batch_size").value_or(8)));
  if (const auto accumulate = keys.number("gradient_accumulation_steps");
      accumulate && *accumulate > 1)
    keys.option("gradient_accumulation_steps", "--grad-accum", std::to_string(*accumulate));
  read_optimization(keys, "0");
  if (keys.in_file("deepspeed")) read_deepspeed(keys, "deepspeed");
  read_fsdp(keys);
}

void read_reentrant(Keys& keys, std::string_view key) {
  if (keys.value_of("--ac") == "none") return;
  const std::string shard = keys.value_of("--shard");
  if (shard.starts_with("fsdp"))
    keys.assume(fmt::format("{}: reentrant checkpoints under {} are planned as if they were not",
                            key, shard));
  else
    keys.option(key, "--ac-reentrant");
}

}  // namespace ac_advisor::intake
