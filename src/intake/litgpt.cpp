// litgpt's finetuning (0.5.13): the YAML of `litgpt finetune_lora --config FILE`, or finetune_full
// where no key is of LoRA's, on one GPU. What the keys do: finetune/lora.py, finetune/full.py,
// utils.py, instantiate_torch_optimizer and instantiate_bnb_optimizer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

/// finetune/lora.py, in the order of its arguments.
constexpr std::string_view targets[] = {"query", "key", "value", "projection", "mlp", "head"};

bool has_adapters(const Keys& keys) {
  if (keys.in_file("lora_r") || keys.in_file("lora_alpha") || keys.in_file("lora_dropout") ||
      keys.in_file("quantize"))
    return true;
  for (const std::string_view target : targets)
    if (keys.in_file("lora_" + std::string(target))) return true;
  return false;
}

bool detects(const Node& file) {
  const Node* train = file.find("train");
  return train != nullptr && train->find("micro_batch_size") != nullptr &&
         (file.find("checkpoint_dir") != nullptr || file.find("model_name") != nullptr);
}

std::string read_quantization(Keys& keys) {
  const std::string how = keys.text("quantize").value_or("");
  if (how == "bnb.nf4" || how == "bnb.nf4-dq")
    keys.option("quantize", "--quantize", how == "bnb.nf4" ? "nf4" : "nf4-double");
  else if (!how.empty())
    static_cast<void>(keys.unplanned("quantize", "bnb.nf4 and bnb.nf4-dq are planned"));
  return how;
}

void read_adapters(Keys& keys) {
  keys.option("lora_r", "--lora", std::to_string(keys.number("lora_r").value_or(8)));
  keys.option("lora_dropout", "--lora-dropout", keys.text("lora_dropout").value_or("0.05"));
  std::vector<std::string_view> on;
  for (const std::string_view target : targets)
    if (keys.flag("lora_" + std::string(target))) on.push_back(target);
  if (on.empty()) keys.refuse("lora_query", "no layer gets adapters; turn one of lora_… on");
  const bool all = on.size() == 5 && on.back() != "head";
  keys.option("lora_query", "--lora-targets",
              all ? "all-linear" : fmt::format("{}", fmt::join(on, ",")));
}

/// A name is a class of torch.optim's, which is foreach; beside quantized layers bitsandbytes'.
void read_optimizer_of(Keys& keys, bool quantized) {
  const bool written = keys.in_file("optimizer.class_path");
  const char* const key = written ? "optimizer.class_path" : "optimizer";
  const std::string path = keys.text(key).value_or("AdamW");
  const std::string name = path.substr(path.rfind('.') + 1);
  const bool fused = written && keys.flag("optimizer.init_args.fused");
  if (name == "AdamW" && quantized) return keys.option(key, "--optimizer", "paged-adamw");
  if (name == "AdamW" || name == "Adam")
    return keys.option(key, "--optimizer", fused ? "adamw" : "adamw-foreach");
  if (name == "SGD") {
    const std::string momentum =
        written ? keys.text("optimizer.init_args.momentum").value_or("0") : "0";
    const bool none = momentum == "0" || momentum == "0.0";
    return keys.option(key, "--optimizer", none ? "sgd" : "sgd-momentum");
  }
  static_cast<void>(keys.unplanned(key, "AdamW and SGD are planned"));
}

void read(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "litgpt");
  std::string model = keys.text("checkpoint_dir").value_or("");
  if (constexpr std::string_view folder = "checkpoints/"; model.starts_with(folder))
    model.erase(0, folder.size());
  keys.out().model_key = "checkpoint_dir";
  keys.out().model = model;
  keys.out().flavor_of = "litgpt";
  for (const char* several : {"devices", "num_nodes"})
    if (keys.text(several).value_or("1") != "1")
      static_cast<void>(keys.unplanned(several, "litgpt is planned on one GPU"));
  const std::string precision = keys.text("precision").value_or("bf16-true");
  if (precision != "bf16-true")
    static_cast<void>(keys.unplanned("precision", "bf16-true is planned"));
  constexpr const char* micro = "train.micro_batch_size";
  constexpr const char* global = "train.global_batch_size";
  const std::int64_t batch = keys.number(micro).value_or(1);
  const std::int64_t all = keys.number(global).value_or(16);
  if (batch < 1 || all < batch)
    keys.refuse(keys.in_file(global) ? global : micro, "a step has one micro-batch at least");
  keys.option(micro, "--batch", std::to_string(batch));
  if (all / batch > 1) keys.option(global, "--grad-accum", std::to_string(all / batch));
  if (const auto length = keys.number("train.max_seq_length"))
    keys.option("train.max_seq_length", "--seq", std::to_string(*length));
  else if (!keys.by_hand("--seq"))
    keys.refuse("train.max_seq_length",
                "none: rows are as long as the data has them; give --seq N by hand");
  keys.assume("each row is planned as long as --seq, an upper bound: shorter batches hold less");
  const bool adapted = has_adapters(keys);
  const bool quantized = adapted && !read_quantization(keys).empty();
  if (adapted) read_adapters(keys);
  read_optimizer_of(keys, quantized);
}

}  // namespace

const Tool litgpt{"litgpt", detects, read, true};

}  // namespace ac_advisor::intake
