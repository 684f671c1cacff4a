// torchtune's finetuning recipes (0.6.1): the YAML of `tune run full_finetune_… --config FILE`, of
// one GPU and, by --world, of several. What the keys do: recipes/full_finetune_distributed.py,
// lora_finetune_distributed.py and their single_device ones.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

constexpr std::string_view models = "torchtune.models.";

bool detects(const Node& file) {
  for (const char* section : {"model", "tokenizer", "policy_model"})
    if (const Node* node = file.find(section))
      if (const Node* component = node->find("_component_");
          component != nullptr && component->text.starts_with("torchtune."))
        return true;
  return false;
}

bool several(const Keys& keys) { return keys.world() > 1; }

/// "llama3_1/llama3_1_8b" of "torchtune.models.llama3_1.lora_llama3_1_8b"; whether it has adapters.
bool read_model(Keys& keys) {
  constexpr const char* key = "model._component_";
  const std::string component = keys.text(key).value_or("");
  const std::size_t dot = component.find('.', models.size());
  if (!component.starts_with(models) || dot == std::string::npos)
    keys.refuse(key,
                "is a builder of torchtune.models, such as torchtune.models.llama3_1.llama3_1_8b");
  std::string name = component.substr(dot + 1);
  const bool quantized = name.starts_with("qlora_"),
             adapted = quantized || name.starts_with("lora_");
  if (quantized)
    static_cast<void>(keys.unplanned(key, "its quantized base is torchao's NF4Tensor"));
  if (adapted) name.erase(0, name.find('_') + 1);
  keys.out().model_key = key;
  keys.out().flavor_of = "torchtune";
  keys.out().model = component.substr(models.size(), dot - models.size()) + "/" + name;
  return adapted;
}

/// lora_attn_modules and apply_lora_to_mlp, by transformers' names.
void read_adapters(Keys& keys) {
  keys.option("model.lora_rank", "--lora",
              std::to_string(keys.number("model.lora_rank").value_or(8)));
  constexpr const char* key = "model.lora_attn_modules";
  std::vector<std::string> targets = keys.words(key);
  if (targets.empty()) keys.refuse(key, "names one or more of q_proj, k_proj, v_proj, output_proj");
  for (std::string& target : targets) {
    if (target == "output_proj")
      target = "o_proj";
    else if (target != "q_proj" && target != "k_proj" && target != "v_proj")
      keys.refuse(key, "names some of q_proj, k_proj, v_proj, output_proj");
  }
  if (keys.flag("model.apply_lora_to_mlp"))
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) targets.emplace_back(part);
  if (keys.flag("model.apply_lora_to_output"))
    static_cast<void>(
        keys.unplanned("model.apply_lora_to_output", "adapters of the LM head are not planned"));
  keys.option(key, "--lora-targets",
              targets.size() == 7 ? "all-linear" : fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "model.lora_dropout", "--lora-dropout", "0.0");
  if (keys.flag("model.use_dora")) keys.option("model.use_dora", "--dora");
}

/// A class of torch.optim runs fused where it is told to, else foreach.
void read_optimizer_of(Keys& keys) {
  constexpr const char* key = "optimizer._component_";
  const std::string name = keys.text(key).value_or("");
  if (name.empty()) keys.refuse(key, "none: this is no configuration of a finetuning recipe");
  const bool fused = keys.flag("optimizer.fused");
  if (!fused && keys.in_file("optimizer.foreach") && !keys.flag("optimizer.foreach"))
    static_cast<void>(
        keys.unplanned("optimizer.foreach", "an optimizer of single tensors is not planned"));
  if (name == "torch.optim.AdamW" || name == "torch.optim.Adam")
    return keys.option(key, "--optimizer", fused ? "adamw" : "adamw-foreach");
  if (name == "torch.optim.SGD") {
    const std::string momentum = keys.text("optimizer.momentum").value_or("0");
    const bool none = momentum == "0" || momentum == "0.0";
    return keys.option(key, "--optimizer", none ? "sgd" : "sgd-momentum");
  }
  if (name == "torchao.prototype.low_bit_optim.AdamW8bit")
    return keys.option(key, "--optimizer", "adamw-8bit-torchao");
  read_optimizer_class(keys, key, name);
}

void read_loss(Keys& keys) {
  constexpr const char* key = "loss._component_";
  const std::string name = keys.text(key).value_or("");
  if (name.empty()) keys.refuse(key, "none: this is no configuration of a finetuning recipe");
  if (name == "torchtune.modules.loss.CEWithChunkedOutputLoss") {
    constexpr const char* chunks = "loss.num_output_chunks";
    keys.option(chunks, "--loss",
                "chunked-logits:" + std::to_string(keys.number(chunks).value_or(8)));
  } else if (name == "torch.nn.CrossEntropyLoss") {
    keys.option(key, "--loss", "ce");
    keys.option(key, "--output-dtype", "fp32");
  } else {
    static_cast<void>(keys.unplanned(
        key,
        "torch.nn.CrossEntropyLoss and CEWithChunkedOutputLoss are planned, of supervised "
        "tuning"));
  }
}

/// training/activations.py; ac_mode is full_finetune_distributed's alone.
void read_checkpointing(Keys& keys, bool adapted) {
  constexpr const char* key = "enable_activation_checkpointing";
  const bool full = keys.flag(key);
  keys.option(key, "--ac", full ? "full" : "none");
  if (const std::string mode = keys.text("ac_mode").value_or("");
      !full && mode == "selective" && several(keys) && !adapted) {
    const std::string option = keys.text("ac_option").value_or("1");
    if (option.empty() || option == "0" ||
        option.find_first_not_of("0123456789") != std::string::npos)
      static_cast<void>(keys.unplanned("ac_option", "every K-th layer is planned"));
    else
      keys.option("ac_option", "--ac", "every:" + option);
  }
  if (!keys.flag("enable_activation_offloading")) return;
  if (!full)
    keys.refuse("enable_activation_offloading", "needs enable_activation_checkpointing: True");
  keys.option("enable_activation_offloading", "--offload", "activations");
}

void read_distributed(Keys& keys) {
  keys.option("fsdp_reshard_after_forward", "--shard", "fsdp2");
  if (!keys.flag("fsdp_reshard_after_forward"))
    keys.option("fsdp_reshard_after_forward", "--reshard-after-forward", "false");
  if (keys.flag("fsdp_cpu_offload")) keys.option("fsdp_cpu_offload", "--offload", "parameters");
  if (const Node* layers = keys.node("custom_sharded_layers");
      layers != nullptr && !layers->items.empty())
    static_cast<void>(keys.unplanned("custom_sharded_layers",
                                     "units of the embedding and the LM head are not planned"));
}

void read_dtype(Keys& keys, bool adapted) {
  const std::string dtype = keys.text("dtype").value_or("");
  if (dtype != "bf16" && dtype != "fp32") keys.refuse("dtype", "is bf16 or fp32");
  for (const char* option : {"--param-dtype", "--compute-dtype"})
    keys.option("dtype", option, dtype);
  if (several(keys)) keys.option("dtype", "--reduce-dtype", dtype);
  if (adapted) keys.option("dtype", "--lora-dtype", dtype);
}

void read(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "torchtune");
  const bool adapted = read_model(keys);
  keys.option("batch_size", "--batch", std::to_string(keys.number("batch_size").value_or(1)));
  if (const auto accumulate = keys.number("gradient_accumulation_steps").value_or(1);
      accumulate > 1)
    keys.option("gradient_accumulation_steps", "--grad-accum", std::to_string(accumulate));
  if (const auto length = keys.number("tokenizer.max_seq_len"))
    keys.option("tokenizer.max_seq_len", "--seq", std::to_string(*length));
  else if (!keys.by_hand("--seq"))
    keys.refuse("tokenizer.max_seq_len",
                "none: rows are as long as the data has them; give --seq N by hand");
  if (keys.flag("dataset.packed"))
    static_cast<void>(
        keys.unplanned("dataset.packed", "torchtune's masks of packed rows are not planned"));
  keys.assume("each row is planned as long as --seq, an upper bound: shorter batches hold less");
  if (adapted) read_adapters(keys);
  read_dropout(keys, "model.attn_dropout", "--dropout", "0.0");
  read_optimizer_of(keys);
  read_loss(keys);
  keys.option("clip_grad_norm", "--clip-grad", keys.text("clip_grad_norm").value_or("0"));
  read_checkpointing(keys, adapted);
  if (several(keys)) read_distributed(keys);
  if (!adapted && keys.flag("optimizer_in_bwd")) {
    if (several(keys))
      static_cast<void>(keys.unplanned("optimizer_in_bwd", "it is planned on one GPU alone"));
    else
      keys.option("optimizer_in_bwd", "--optimizer-in-backward");
  }
  keys.option("compile", "--kernels", keys.flag("compile") ? "compiled" : "eager");
  read_dtype(keys, adapted);
}

}  // namespace

const Tool torchtune{"torchtune", detects, read, true};

}  // namespace ac_advisor::intake
