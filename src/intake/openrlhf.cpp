// OpenRLHF (0.11.2): the arguments of openrlhf.cli.train_sft, train_dpo and train_rm, which
// DeepSpeed runs. openrlhf/cli/*.py, models/actor.py, utils/deepspeed/*.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) { return file.find("openrlhf") != nullptr; }

constexpr std::string_view sections = "OpenRLHF 0.10.2";
/// cli/train_*.py until 0.9: names without sections.
constexpr Renamed renamed[] = {
    {"pretrain", "model.model_name_or_path", sections},
    {"ref_pretrain", "ref.model_name_or_path", sections},
    {"max_len", "data.max_len", sections},
    {"micro_train_batch_size", "train.micro_batch_size", sections},
    {"train_batch_size", "train.batch_size", sections},
    {"zero_stage", "ds.zero_stage", sections},
    {"adam_offload", "ds.adam_offload", sections},
    {"gradient_checkpointing", "model.gradient_checkpointing_enable", sections},
    {"gradient_checkpointing_use_reentrant", "model.gradient_checkpointing_reentrant", sections},
    {"param_dtype", "ds.param_dtype", sections},
    {"attn_implementation", "ds.attn_implementation", sections},
    {"overlap_comm", "ds.overlap_comm", sections},
    {"packing_samples", "ds.packing_samples", sections},
    {"load_in_4bit", "ds.load_in_4bit", sections},
    {"lora_rank", "ds.lora.rank", sections},
    {"lora_dropout", "ds.lora.dropout", sections},
    {"target_modules", "ds.lora.target_modules", sections},
    {"zpg", "ds.zpg", sections},
    {"grad_accum_dtype", "ds.grad_accum_dtype", sections},
    {"ring_attn_size", "ds.ring_attn_size", sections},
    {"ds_tensor_parallel_size", "ds.tensor_parallel_size", sections},
    {"use_liger_kernel", "ds.use_liger_kernel", sections},
    {"ref_offload", "ref.offload", sections},
    {"aux_loss_coef", "model.aux_loss_coef", sections},
    {"nll_loss_coef", "model.nll_loss_coef", sections}};

/// Which of its programs; sets the framework and the task.
std::string read_program(Keys& keys) {
  const std::string program = keys.text("openrlhf").value_or("train_sft");
  const char* framework = program == "train_sft" ? "deepspeed" : "trl";
  if (program == "train_ppo_ray")
    keys.refuse("openrlhf",
                "a critic and a reward model beside the actor are not planned; of GRPO, TRL's step "
                "and verl's are, by --task grpo with the model's name in place of the file");
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", framework);
  if (program == "train_rm") {
    keys.option("openrlhf", "--task", "reward");
    keys.assume("planned as TRL's step of a reward model under DeepSpeed");
  } else if (program == "train_dpo") {
    static_cast<void>(keys.unplanned(
        "openrlhf",
        "train_dpo casts whole logits to fp32; without this key TRL 1.16's step is planned, --task "
        "dpo"));
    keys.option("openrlhf", "--task", "dpo");
  }
  return program;
}

/// strategy.setup_distributed: accumulated_gradient.
void read_batches(Keys& keys, std::int64_t world) {
  constexpr const char* micro = "train.micro_batch_size";
  constexpr const char* global = "train.batch_size";
  if (!keys.left_open(micro, "--batch"))
    keys.option(micro, "--batch", std::to_string(keys.count(micro, 8)));
  if (keys.left_open(global, "--grad-accum") || keys.by_hand("--grad-accum")) return;
  const std::int64_t rows = keys.count(global, 128),
                     of_each = std::max<std::int64_t>(std::stoll(keys.value_of("--batch")), 1);
  if (rows < of_each * world)
    keys.refuse(global, fmt::format("{} ranks with {} rows each are more", world, of_each));
  const std::int64_t steps = rows / (of_each * world);
  if (steps * of_each * world != rows)
    keys.refuse(global,
                fmt::format("is not a multiple of {} ranks with {} rows each", world, of_each));
  if (steps > 1) keys.option(global, "--grad-accum", std::to_string(steps));
}

/// utils/deepspeed/deepspeed_utils.py, get_train_ds_config: what it leaves "auto" is DeepSpeed's
/// default.
void read_stage(Keys& keys) {
  constexpr const char* stage = "ds.zero_stage";
  if (keys.left_open(stage, "--shard")) return;
  if (keys.by_hand("--shard")) {
    static_cast<void>(keys.number(stage));
    return keys.assume("ds.zero_stage: --shard by hand says how parameters are sharded");
  }
  std::vector<Member> zero = {{"stage", scalar_of(std::to_string(keys.number(stage).value_or(2)))}};
  if (keys.flag("ds.overlap_comm")) zero.push_back({"overlap_comm", scalar_of("true")});
  if (keys.flag("ds.adam_offload"))
    zero.push_back({"offload_optimizer", map_of({{"device", scalar_of("cpu")}})});
  read_zero(keys, stage, map_of({{"zero_optimization", map_of(std::move(zero))}}));
}

/// models/actor.py: adapters are PEFT's over the base, NF4 with double quantization.
void read_adapters(Keys& keys) {
  const std::int64_t rank = keys.number("ds.lora.rank").value_or(0);
  const bool four = keys.flag("ds.load_in_4bit");
  if (rank < 0) keys.refuse("ds.lora.rank", "is 0 or more");
  if (rank == 0) {
    if (four) keys.refuse("ds.load_in_4bit", "a quantized model is trained by adapters alone");
    return;
  }
  keys.option("ds.lora.rank", "--lora", std::to_string(rank));
  const std::vector<std::string> targets = keys.words("ds.lora.target_modules");
  keys.option("ds.lora.target_modules", "--lora-targets",
              targets.empty() ? "all-linear" : fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "ds.lora.dropout", "--lora-dropout", "0");
  if (four) keys.option("ds.load_in_4bit", "--quantize", "nf4-double");
}

void read_attention(Keys& keys) {
  constexpr const char* key = "ds.attn_implementation";
  const bool packs = keys.flag("ds.packing_samples");
  std::string attention = keys.text(key).value_or("flash_attention_2");
  if (packs && attention.find("flash_attention") == std::string::npos) {
    keys.assume(std::string(key) + ": packing_samples makes it flash_attention_2");
    attention = "flash_attention_2";
  }
  if (attention == "flash_attention_2")
    keys.option(key, "--attn", "flash");
  else if (attention == "eager")
    keys.option(key, "--attn", "eager");
  else if (attention != "sdpa")
    static_cast<void>(keys.unplanned(key, "sdpa, eager and flash_attention_2 are planned"));
  if (packs) keys.option("ds.packing_samples", "--packing", keys.value_of("--batch"));
}

void read_length(Keys& keys, bool sft) {
  constexpr const char* key = "data.max_len";
  if (keys.left_open(key, "--seq")) return;
  const std::int64_t longest = keys.in_file(key) ? keys.count(key, 1) : sft ? 2048 : 512;
  if (!keys.in_file(key)) {
    static_cast<void>(keys.number(key));
    keys.resolved(key, std::to_string(longest));
  }
  keys.option(key, "--seq", std::to_string(longest));
  assume_longest(keys, key);
}

void read(Keys& keys) {
  const std::string program = read_program(keys);
  const bool sft = program == "train_sft";
  if (sft)
    keys.assume(
        "the loss is planned as transformers': OpenRLHF casts whole logits to fp32 and has "
        "flash-attn's cross-entropy, which was not compared");
  read_model_path(keys, "model.model_name_or_path");
  const std::int64_t world =
      read_ranks(keys, "openrlhf",
                 "the deepspeed launcher takes all devices that it finds: give --world N by hand");
  read_batches(keys, world);
  read_stage(keys);
  const std::string dtype = keys.text("ds.param_dtype").value_or("bf16");
  if (dtype != "bf16" && dtype != "fp16") keys.refuse("ds.param_dtype", "is bf16 or fp16");
  keys.option("ds.param_dtype", "--param-dtype", dtype);
  if (keys.text("optim").value_or("adam") != "adam")
    static_cast<void>(keys.unplanned("optim", "adam is planned, DeepSpeed's FusedAdam"));
  else
    keys.option("optim", "--optimizer", "adamw");
  keys.option("max_norm", "--clip-grad", keys.text("max_norm").value_or("1.0"));
  read_adapters(keys);
  read_attention(keys);
  read_length(keys, sft);
  constexpr const char* ac = "model.gradient_checkpointing_enable";
  keys.option(ac, "--ac", keys.flag(ac) ? "full" : "none");
  if (keys.flag("model.gradient_checkpointing_reentrant"))
    read_reentrant(keys, "model.gradient_checkpointing_reentrant");
  if (sft) return;
  const std::string model = keys.text("model.model_name_or_path").value_or(""),
                    reference = keys.text("ref.model_name_or_path").value_or(model);
  if (program == "train_dpo") {
    if (!keys.in_file("ref.model_name_or_path")) keys.resolved("ref.model_name_or_path", model);
    if (reference != model)
      static_cast<void>(keys.unplanned("ref.model_name_or_path", "the model's own is planned"));
    if (keys.flag("ref.offload"))
      static_cast<void>(keys.unplanned("ref.offload", "a reference on the host is not planned"));
    keys.option("ref.model_name_or_path", "--ref", "model");
  }
}

}  // namespace

const Tool openrlhf{"openrlhf", detects, read, false, false, renamed};

}  // namespace ac_advisor::intake
