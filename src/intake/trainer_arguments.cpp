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

void read_optimizer(Keys& keys) {
  const std::string name = keys.text("optim").value_or("adamw_torch_fused");
  for (const OptimizerName& optimizer : optimizers)
    if (optimizer.theirs == name)
      return keys.option("optim", "--optimizer", std::string(optimizer.ours));
  static_cast<void>(keys.unplanned("optim", "no optimizer of ours is this one"));
}

void read_fsdp(Keys& keys) {
  const std::vector<std::string> words = keys.words("fsdp");
  if (words.empty()) return;
  if (words.size() == 1 && (words[0] == "false" || words[0] == "False")) return;
  if (keys.by_hand("--shard"))
    return keys.assume("fsdp: --shard by hand says how parameters are sharded");
  for (const std::string& list : words)
    for (const char* word : {"offload", "hybrid_shard", "shard_grad_op", "no_shard"})
      if (list.find(word) != std::string::npos) {
        static_cast<void>(
            keys.unplanned("fsdp", std::string(word) + " of the Trainer is not planned"));
        return;
      }
  std::string version = "1";
  if (const Node* config = keys.node("fsdp_config");
      config != nullptr && config->kind == Node::Kind::map)
    for (const char* name : {"version", "fsdp_version"})
      if (const Node* given = config->find(name)) version = given->text;
  keys.option("fsdp", "--shard", version == "2" ? "fsdp2" : "fsdp1");
}

}  // namespace

void read_trainer_arguments(Keys& keys) {
  keys.option("per_device_train_batch_size", "--batch",
              std::to_string(keys.number("per_device_train_batch_size").value_or(8)));
  if (const auto accumulate = keys.number("gradient_accumulation_steps");
      accumulate && *accumulate > 1)
    keys.option("gradient_accumulation_steps", "--grad-accum", std::to_string(*accumulate));
  read_optimizer(keys);
  keys.option("max_grad_norm", "--clip-grad", keys.text("max_grad_norm").value_or("0"));
  if (keys.flag("torch_compile"))
    static_cast<void>(
        keys.unplanned("torch_compile", "the Trainer compiles the whole model without its loss"));
  if (keys.flag("use_liger_kernel"))
    static_cast<void>(keys.unplanned("use_liger_kernel",
                                     "Liger's kernels are planned with --framework liger alone"));
  if (const Node* with = keys.in_file("gradient_checkpointing_kwargs")
                             ? keys.node("gradient_checkpointing_kwargs")
                             : nullptr)
    if (const Node* reentrant = with->find("use_reentrant");
        reentrant != nullptr && reentrant->text == "true")
      keys.assume("gradient_checkpointing_kwargs: use_reentrant is planned as false");
  if (keys.in_file("deepspeed")) read_deepspeed(keys, "deepspeed");
  read_fsdp(keys);
}

}  // namespace ac_advisor::intake
