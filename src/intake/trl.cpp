// TRL's scripts (trl/scripts, 1.16.0): the YAML of `trl sft --config`, of `trl dpo`, `trl kto` and
// `trl reward`, and of `trl grpo`, `trl rloo` and `trl distillation`, whose completions are written
// between their steps.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  return file.find("model_name_or_path") != nullptr && file.find("finetuning_type") == nullptr;
}

/// The dtype that parameters are loaded in (ModelConfig.dtype) and that the step computes in (bf16,
/// fp16: autocast).
void read_precision(Keys& keys) {
  const std::string dtype = keys.text("dtype").value_or("auto");
  const bool half = keys.flag("fp16");
  // base_config.py, __post_init__: bf16 is on unless fp16 is.
  const bool bf16 = keys.in_file("bf16") ? keys.flag("bf16") : !half;
  if (!keys.in_file("bf16")) {
    static_cast<void>(keys.text("bf16"));
    keys.resolved("bf16", bf16 ? "True" : "False");
  }
  if (keys.under_zero() && (bf16 || half))
    keys.option(half ? "fp16" : "bf16", "--param-dtype", half ? "fp16" : "bf16");
  else if (keys.under_fsdp() && (bf16 || half) && keys.value_of("--lora").empty())
    keys.option(half ? "fp16" : "bf16", "--param-dtype", "fp32");
  else if (dtype == "float32")
    keys.option("dtype", "--param-dtype", "fp32");
  else if (dtype == "bfloat16" || dtype == "auto")
    keys.option("dtype", "--param-dtype", "bf16");
  else if (dtype == "float16")
    keys.option("dtype", "--param-dtype", "fp16");
  else
    keys.refuse("dtype", "is auto, bfloat16, float16 or float32");
  if (dtype == "auto") keys.assume("dtype: auto is the checkpoint's own, planned as bf16");
  if (half && bf16) keys.refuse("fp16", "and bf16 exclude each other");
  if (half && keys.under_fsdp())
    keys.option("fp16", "--compute-dtype", "fp16");
  else if (half && !keys.under_zero())
    keys.option("fp16", "--autocast", "fp16");
  if (!half && !bf16) {
    keys.option("bf16", "--autocast", "none");
    keys.option("bf16", "--compute-dtype",
                dtype == "float32"   ? "fp32"
                : dtype == "float16" ? "fp16"
                                     : "bf16");
  }
}

void read_adapter(Keys& keys) {
  const bool four = keys.flag("load_in_4bit"), eight = keys.flag("load_in_8bit");
  if (four && eight) keys.refuse("load_in_8bit", "and load_in_4bit exclude each other");
  if (!keys.flag("use_peft")) {
    if (four || eight)
      keys.refuse(four ? "load_in_4bit" : "load_in_8bit",
                  "a quantized model is trained by adapters alone; use_peft: true");
    return;
  }
  keys.option("use_peft", "--lora", std::to_string(keys.number("lora_r").value_or(16)));
  if (const std::vector<std::string> targets = keys.words("lora_target_modules"); !targets.empty())
    keys.option("lora_target_modules", "--lora-targets",
                fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "lora_dropout", "--lora-dropout", "0");
  if (keys.flag("use_dora")) keys.option("use_dora", "--dora");
  if (eight) keys.option("load_in_8bit", "--quantize", "int8");
  if (!four) return;
  if (keys.text("bnb_4bit_quant_type").value_or("nf4") != "nf4")
    static_cast<void>(keys.unplanned("bnb_4bit_quant_type", "nf4 is planned"));
  keys.option("load_in_4bit", "--quantize",
              keys.flag("use_bnb_nested_quant") ? "nf4-double" : "nf4");
}

void read_attention(Keys& keys) {
  const std::string attention = keys.text("attn_implementation").value_or("sdpa");
  if (attention == "flash_attention_2")
    keys.option("attn_implementation", "--attn", "flash");
  else if (attention == "eager")
    keys.option("attn_implementation", "--attn", "eager");
  else if (attention != "sdpa")
    static_cast<void>(
        keys.unplanned("attn_implementation", "sdpa, eager and flash_attention_2 are planned"));
}

/// Who writes completions: grpo_config.py, vllm_mode; generation/vllm_generation.py puts its engine
/// to sleep at level 2.
void read_rollout(Keys& keys) {
  if (!keys.flag("use_vllm")) return keys.option("use_vllm", "--rollout", "generate");
  const std::string mode = keys.text("vllm_mode").value_or("colocate");
  if (mode == "server") return keys.option("vllm_mode", "--rollout", "served");
  if (mode != "colocate") keys.refuse("vllm_mode", "is colocate or server");
  const std::string share = keys.text("vllm_gpu_memory_utilization").value_or("0.3");
  const std::int64_t ranks = keys.count("vllm_tensor_parallel_size", 1);
  const bool sleeps = keys.flag("vllm_enable_sleep_mode");
  keys.option("use_vllm", "--rollout",
              ranks == 1 && !sleeps
                  ? "vllm:" + share
                  : fmt::format("vllm:tp{},util={},sleep={}", ranks, share, sleeps ? 2 : 0));
}

void begin_task(Keys& keys, const char* task) {
  if (!keys.by_hand("--task")) keys.out().options.emplace_back("--task", task);
}

/// A prompt's tokens are the data's.
void read_completions(Keys& keys, const char* task) {
  begin_task(keys, task);
  if (!keys.by_hand("--prompt"))
    keys.refuse("max_completion_length",
                "says nothing of prompts, which are as long as the data has them; give --prompt N "
                "by hand");
  keys.option("max_completion_length", "--completion",
              std::to_string(keys.count("max_completion_length", 512)));
  read_rollout(keys);
}

/// sft_trainer.py, __init__: a coefficient of 0 switches the routers' auxiliary loss off; of a
/// class without that loss any other is an error.
void read_router_loss(Keys& keys) {
  constexpr const char* key = "router_aux_loss_coef";
  const bool on = is_weighted(keys, key);
  if (keys.in_file(key)) keys.option(key, "--router-aux-loss", on ? "on" : "off");
}

/// The model, and what transformers' trainers have.
void begin(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "trl");
  keys.out().model_key = "model_name_or_path";
  keys.out().model = keys.text("model_name_or_path").value_or("");
  read_trainer_arguments(keys);
}

/// training_args.py, __post_init__: gradient_checkpointing counts only where
/// activation_checkpointing is not given.
void read_checkpointing(Keys& keys) {
  const char* const checkpointing = keys.in_file("activation_checkpointing")
                                        ? "activation_checkpointing"
                                        : "gradient_checkpointing";
  keys.option(checkpointing, "--ac", keys.flag(checkpointing) ? "full" : "none");
  if (!keys.in_file("gradient_checkpointing_kwargs")) return;
  const Node* reentrant = keys.node("gradient_checkpointing_kwargs")->find("use_reentrant");
  if (reentrant != nullptr && truth_of(reentrant->text).value_or(false))
    read_reentrant(keys, "gradient_checkpointing_kwargs");
}

void end(Keys& keys) {
  read_checkpointing(keys);
  read_attention(keys);
  read_adapter(keys);
}

void read_length(Keys& keys) {
  const std::optional<std::int64_t> length = keys.number("max_length");
  if (length)
    keys.option("max_length", "--seq", std::to_string(*length));
  else if (!keys.by_hand("--seq"))
    keys.refuse("max_length", "none: rows are as long as the data has them; give --seq N by hand");
}

void read(Keys& keys) {
  begin(keys);
  read_length(keys);
  if (keys.flag("packing") || keys.flag("padding_free")) {
    const std::string documents =
        std::to_string(keys.number("per_device_train_batch_size").value_or(8));
    keys.option(keys.flag("packing") ? "packing" : "padding_free", "--packing", documents);
    assume_one_document(keys);
  } else {
    assume_longest(keys, "max_length");
  }
  read_precision(keys);
  if (keys.text("loss_type").value_or("nll") != "nll")
    static_cast<void>(keys.unplanned("loss_type", "nll is planned"));
  if (keys.flag("activation_offloading"))
    keys.option("activation_offloading", "--offload", "activations");
  read_router_loss(keys);
  end(keys);
}

/// Of a model with adapters the reference is the model with them off; with `precomputed`, numbers
/// that come with the batch.
void read_reference(Keys& keys, const char* key, bool precomputed = false) {
  keys.option(key, "--ref",
              precomputed             ? "precomputed"
              : keys.flag("use_peft") ? "adapter"
                                      : "model");
}

void read_rewarded(Keys& keys, const char* task, std::int64_t group) {
  begin(keys);
  read_completions(keys, task);
  keys.option("num_generations", "--group", std::to_string(keys.count("num_generations", group)));
  if (is_weighted(keys, "beta"))
    read_reference(keys, "beta");
  else
    keys.option("beta", "--ref", "none");
  read_precision(keys);
  read_router_loss(keys);
  end(keys);
}

void read_grpo(Keys& keys) {
  read_rewarded(keys, "grpo", 8);
  const std::string loss = keys.text("loss_type").value_or("dapo");
  if (loss != "dapo") assume_loss(keys, "loss_type", loss, "dapo");
}

void read_rloo(Keys& keys) { read_rewarded(keys, "rloo", 2); }

/// Rows of a prompt and an answer, of which the data says how long each is.
void read_answers(Keys& keys, const char* task) {
  begin(keys);
  begin_task(keys, task);
  read_length(keys);
  assume_longest(keys, "max_length");
  read_precision(keys);
  if (keys.flag("activation_offloading"))
    keys.option("activation_offloading", "--offload", "activations");
  end(keys);
}

void read_against_reference(Keys& keys, const char* task, const std::string& planned) {
  read_answers(keys, task);
  const bool precomputed = keys.flag("precompute_ref_log_probs");
  read_reference(keys, "precompute_ref_log_probs", precomputed);
  read_router_loss(keys);
  read_losses(keys, "loss_type", planned);
}

void read_dpo(Keys& keys) {
  if (keys.flag("padding_free"))
    static_cast<void>(keys.unplanned("padding_free", "rows that are padded are planned"));
  read_against_reference(keys, "dpo", "sigmoid");
}

void read_kto(Keys& keys) { read_against_reference(keys, "kto", "kto"); }

void read_reward(Keys& keys) { read_answers(keys, "reward"); }

/// scripts/distillation.py: the teacher is loaded as the student is, unless its own arguments say
/// otherwise.
void read_teachers_dtype(Keys& keys) {
  constexpr const char* key = "teacher_model_init_kwargs";
  if (!keys.in_file(key)) return;
  const Node* const given = keys.node(key);
  for (const Member& member : given->members)
    if (member.key != "dtype") keys.refuse(key, "its " + member.key + " is not planned");
  const Node* const dtype = given->find("dtype");
  if (dtype != nullptr && dtype->text != keys.text("dtype").value_or("float32"))
    keys.refuse(key, "a teacher in another dtype than the student's is not planned");
}

void read_distillation(Keys& keys) {
  begin(keys);
  read_completions(keys, "distillation");
  keys.option("teacher_model_name_or_path", "--teacher",
              keys.text("teacher_model_name_or_path").value_or(""));
  read_teachers_dtype(keys);
  static_cast<void>(is_weighted(keys, "beta"));
  if (keys.flag("fp16"))
    keys.refuse("fp16", "beside a loss that is not autocast is not planned; leave it out");
  read_precision(keys);
  end(keys);
}

bool detects_distillation(const Node& file) {
  return detects(file) && file.find("teacher_model_name_or_path") != nullptr;
}

bool has_one_of(const Node& file, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const char* key) { return file.find(key) != nullptr; });
}

/// By what no SFTConfig has.
bool detects_grpo(const Node& file) {
  return detects(file) &&
         has_one_of(file, {"max_completion_length", "num_generations", "vllm_mode", "use_vllm"});
}
bool detects_rloo(const Node& file) {
  return detects_grpo(file) && has_one_of(file, {"normalize_advantages", "reward_clip_range"});
}
bool detects_kto(const Node& file) {
  const Node* const loss = file.find("loss_type");
  return detects(file) &&
         (has_one_of(file, {"desirable_weight", "undesirable_weight"}) ||
          (loss != nullptr && (loss->text == "kto" || loss->text == "apo_zero_unpaired")));
}
bool detects_dpo(const Node& file) {
  return detects(file) && has_one_of(file, {"beta", "precompute_ref_log_probs"});
}
bool detects_reward(const Node& file) {
  return detects(file) && file.find("center_rewards_coefficient") != nullptr;
}

}  // namespace

const Tool trl{"trl", detects, read};
const Tool trl_dpo{"trl-dpo", detects_dpo, read_dpo};
const Tool trl_kto{"trl-kto", detects_kto, read_kto};
const Tool trl_reward{"trl-reward", detects_reward, read_reward};
const Tool trl_grpo{"trl-grpo", detects_grpo, read_grpo};
const Tool trl_rloo{"trl-rloo", detects_rloo, read_rloo};
const Tool trl_distillation{"trl-distillation", detects_distillation, read_distillation};

}  // namespace ac_advisor::intake
