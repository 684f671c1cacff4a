// NeMo AutoModel's recipe for language models (0.5.0): `automodel FILE --nproc-per-node N`. What
// the keys do: recipes/llm/train_ft.py, recipes/_dist_utils.py, components/distributed/config.py,
// parallelizer.py, _transformers/auto_model.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  const Node* model = file.find("model");
  return file.find("step_scheduler") != nullptr && model != nullptr &&
         model->find("_target_") != nullptr;
}

/// The last name of a path: "AdamW" of "torch.optim.AdamW".
std::string last_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string dtype_of(Keys& keys, std::string_view key, const char* otherwise) {
  std::string name = last_of(keys.text(key).value_or(otherwise));
  if (name == "bfloat16") name = "bf16";
  if (name == "float32") name = "fp32";
  if (name == "float16") name = "fp16";
  if (name != "bf16" && name != "fp32" && name != "fp16")
    keys.refuse(key, "is bfloat16, float16 or float32");
  return name;
}

/// By hand, else what the degrees that stand there come to; 1: one rank, which is not wrapped.
std::int64_t read_world(Keys& keys) {
  if (const std::int64_t given = keys.world(); given > 0) return given;
  const std::int64_t ranks = keys.number("distributed.dp_size").value_or(0);
  if (ranks > 1) {
    keys.option("distributed.dp_size", "--world", std::to_string(ranks));
    return ranks;
  }
  keys.assume("distributed.dp_size: all ranks that are left; planned on 1 GPU: --world N");
  return 1;
}

void read_shard(Keys& keys, std::int64_t world) {
  constexpr const char* key = "distributed.strategy";
  const std::string strategy = keys.text(key).value_or("fsdp2");
  for (const char* size : {"tp_size", "cp_size", "pp_size", "ep_size"}) {
    const std::string path = std::string("distributed.") + size;
    const std::int64_t ranks = keys.number(path).value_or(1);
    keys.resolved(path, std::to_string(ranks));
    if (ranks > 1)
      static_cast<void>(keys.unplanned(path, "AutoModel's layout of several is not planned"));
  }
  if (strategy == "ddp") return keys.option(key, "--shard", world > 1 ? "ddp" : "none");
  if (strategy != "fsdp2") {
    static_cast<void>(keys.unplanned(key, "fsdp2 and ddp are planned"));
    return;
  }
  if (world == 1) return keys.option(key, "--shard", "none");
  constexpr const char* copies = "distributed.dp_replicate_size";
  const std::int64_t replicas = keys.count(copies, 1);
  if (world % replicas != 0) keys.refuse(copies, fmt::format("does not divide {} ranks", world));
  if (replicas > 1)
    keys.option(copies, "--shard", fmt::format("hsdp:{}", world / replicas));
  else
    keys.option(key, "--shard", "fsdp2");
  constexpr const char* reshard = "distributed.reshard_after_forward";
  if (const std::optional<std::string> given = keys.text(reshard)) {
    const bool on = keys.flag(reshard);
    keys.option(reshard, "--reshard-after-forward", on ? "true" : "false");
    if (on)
      keys.assume(
          "distributed.reshard_after_forward: the last block is planned as it is by "
          "default, left gathered");
  } else {
    keys.option(reshard, "--keep-last-block");
  }
  if (keys.flag("distributed.defer_fsdp_grad_sync"))
    keys.option("distributed.defer_fsdp_grad_sync", "--no-sync");
  constexpr const char* computes = "distributed.mp_policy.param_dtype";
  constexpr const char* reduces = "distributed.mp_policy.reduce_dtype";
  keys.option(computes, "--compute-dtype", dtype_of(keys, computes, "bfloat16"));
  keys.option(reduces, "--reduce-dtype", dtype_of(keys, reduces, "float32"));
  constexpr const char* offload = "distributed.offload_policy._target_";
  if (keys.in_file(offload)) {
    static_cast<void>(keys.text(offload));
    keys.option(offload, "--offload", "parameters");
  }
}

/// parallelizer.py: under fsdp2 AutoModel's own implementations are checkpointed by sub-module,
/// transformers' by layer; ddp always by sub-module; one rank by layer.
void read_checkpointing(Keys& keys) {
  constexpr const char* key = "distributed.activation_checkpointing";
  const std::string word = keys.text(key).value_or("false");
  if (word == "selective") return keys.option(key, "--ac", "selective");
  const std::optional<bool> on = word == "full" ? true : truth_of(word);
  if (!on) keys.refuse(key, "is true, false, full or selective");
  keys.option(key, "--ac", *on ? "full" : "none");
  if (!*on) return;
  const std::string shard = keys.value_of("--shard");
  const bool whole = shard == "none" || (shard != "ddp" && keys.flag("model.force_hf"));
  keys.option(key, "--ac-scope", whole ? "block" : "submodule");
  if (!whole && shard != "ddp")
    keys.assume(
        "model.force_hf: where AutoModel has no implementation of its own of this model, "
        "layers are checkpointed whole: --ac-scope block");
}

void read_attention(Keys& keys) {
  constexpr const char* key = "model.attn_implementation";
  constexpr const char* method = "model.sdpa_method";
  std::string name = keys.in_file(key) ? keys.text(key).value_or("") : "";
  if (keys.in_file(method)) {
    const std::vector<std::string> backends = keys.words(method);
    const std::string first = backends.empty() ? "" : backends.front();
    for (const auto& [theirs, ours] : {std::pair{"flash_attention", "flash"},
                                       {"cudnn_attention", "cudnn"},
                                       {"efficient_attention", "efficient"},
                                       {"math", "math"}})
      if (first == theirs) return keys.option(method, "--attn", ours);
    keys.refuse(method,
                "begins with flash_attention, cudnn_attention, efficient_attention or math");
  }
  if (name == "flash_attention_2") return keys.option(key, "--attn", "flash");
  if (name == "eager") return keys.option(key, "--attn", "eager");
  if (name == "sdpa" || name.empty()) {
    if (name.empty())
      keys.assume(
          "model.attn_implementation: flash_attention_2 where flash-attn is installed, else "
          "sdpa, which is planned: --attn flash");
    return keys.option(key, "--attn", "auto");
  }
  static_cast<void>(keys.unplanned(key, "sdpa, eager and flash_attention_2 are planned"));
}

void read_model(Keys& keys) {
  constexpr const char* target = "model._target_";
  const std::string made = keys.text(target).value_or("");
  if (made.find("NeMoAutoModelForCausalLM") == std::string::npos)
    static_cast<void>(keys.unplanned(target, "NeMoAutoModelForCausalLM is planned"));
  for (const char* key : {"model.pretrained_model_name_or_path",
                          "model.config.pretrained_model_name_or_path", "model.config"})
    if (keys.in_file(key)) {
      keys.out().model_key = key;
      keys.out().model = keys.text(key).value_or("");
      break;
    }
  if (keys.out().model_key.empty()) keys.out().model_key = "model.pretrained_model_name_or_path";
  constexpr const char* dtype = "model.torch_dtype";
  const bool automatic = keys.text(dtype).value_or("auto") == "auto";
  keys.option(dtype, "--param-dtype", automatic ? "bf16" : dtype_of(keys, dtype, "bfloat16"));
  if (automatic) keys.assume("model.torch_dtype: auto is the checkpoint's own, planned as bf16");
  keys.option("model.use_liger_kernel", "--kernels",
              keys.flag("model.use_liger_kernel") ? "fused" : "eager");
  read_attention(keys);
  read_dropout(keys, "model.attention_dropout", "--dropout", "0");
}

/// AutoModel's own layers of adapters: components/_peft/lora.py.
void read_adapters(Keys& keys) {
  if (!keys.in_file("peft._target_")) return;
  static_cast<void>(keys.text("peft._target_"));
  keys.option("peft.dim", "--lora", std::to_string(keys.number("peft.dim").value_or(8)));
  std::vector<std::string> targets = keys.words("peft.target_modules");
  for (std::string& target : targets)
    if (target.starts_with("*")) target.erase(0, target.find_first_not_of("*."));
  // module_matcher.py: "*_proj" where nothing is named; with all linear layers the LM head is one.
  const bool all = keys.flag("peft.match_all_linear");
  if (all) keys.assume("peft.match_all_linear: the LM head's adapters are not planned");
  if (keys.in_file("peft.exclude_modules"))
    static_cast<void>(
        keys.unplanned("peft.exclude_modules", "all linear layers but some are not planned"));
  if (all || targets.empty() ||
      (targets.size() == 1 && (targets[0] == "_proj" || targets[0] == "proj")))
    keys.option(all ? "peft.match_all_linear" : "peft.target_modules", "--lora-targets",
                "all-linear");
  else if (std::any_of(targets.begin(), targets.end(), [](const std::string& t) {
             return t.empty() || t.find('*') != std::string::npos;
           }))
    static_cast<void>(keys.unplanned("peft.target_modules", "this pattern is not read"));
  else
    keys.option("peft.target_modules", "--lora-targets",
                fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "peft.dropout", "--lora-dropout", "0.0");
  if (keys.flag("peft.use_dora")) keys.option("peft.use_dora", "--dora");
  keys.option("peft.lora_dtype", "--lora-dtype",
              keys.in_file("peft.lora_dtype") ? dtype_of(keys, "peft.lora_dtype", "bfloat16")
                                              : keys.value_of("--param-dtype"));
  if (keys.flag("peft.use_triton"))
    static_cast<void>(keys.unplanned("peft.use_triton", "its products by PyTorch are planned"));
  if (keys.in_file("peft.use_memory_efficient_lora") &&
      !keys.flag("peft.use_memory_efficient_lora"))
    static_cast<void>(keys.unplanned("peft.use_memory_efficient_lora", "true is planned"));
}

void read_optimizer_of(Keys& keys) {
  constexpr const char* key = "optimizer._target_";
  const std::string name = keys.text(key).value_or("");
  if (name.empty()) keys.refuse(key, "none: a recipe has an optimizer, such as torch.optim.AdamW");
  const bool fused = keys.flag("optimizer.fused");
  if (name.starts_with("transformer_engine.") && last_of(name) == "FusedAdam") {
    keys.option(key, "--optimizer", "adamw");
    if (keys.flag("optimizer.master_weights"))
      keys.option("optimizer.master_weights", "--master-weights");
    return;
  }
  if (!fused && keys.in_file("optimizer.foreach") && !keys.flag("optimizer.foreach"))
    keys.assume(
        "optimizer.foreach: planned as true, whose temporaries a loop over single tensors "
        "has not");
  if (name == "torch.optim.AdamW" || name == "torch.optim.Adam")
    return keys.option(key, "--optimizer", fused ? "adamw" : "adamw-foreach");
  if (name == "torch.optim.SGD") {
    const std::string momentum = keys.text("optimizer.momentum").value_or("0");
    return keys.option(key, "--optimizer",
                       momentum == "0" || momentum == "0.0" ? "sgd" : "sgd-momentum");
  }
  if (name == "transformers.optimization.Adafactor")
    return keys.option(key, "--optimizer", "adafactor");
  read_optimizer_class(keys, key, name);
}

void read_batches(Keys& keys, std::int64_t world) {
  constexpr const char* local = "step_scheduler.local_batch_size";
  constexpr const char* global = "step_scheduler.global_batch_size";
  const std::int64_t micro = keys.number(local).value_or(1);
  const std::int64_t all = keys.number(global).value_or(32);
  const std::int64_t once = micro * world;
  keys.option(local, "--batch", std::to_string(micro));
  if (once < 1 || all % once != 0)
    keys.refuse(
        keys.in_file(global) ? global : local,
        fmt::format("the global batch of {} is no multiple of {} ranks' {}", all, world, once));
  if (all > once) keys.option(global, "--grad-accum", std::to_string(all / once));
  const std::int64_t packed = keys.number("packed_sequence.packed_sequence_size").value_or(0);
  if (packed > 0)
    static_cast<void>(keys.unplanned("packed_sequence.packed_sequence_size",
                                     "AutoModel's packed rows are not planned"));
  if (!keys.by_hand("--seq"))
    keys.refuse("dataset", "its rows are as long as the data has them; give --seq N by hand");
  keys.assume("each row is planned as long as --seq, an upper bound: shorter batches hold less");
}

void read(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "automodel");
  if (const std::string recipe =
          last_of(keys.text(keys.in_file("recipe._target_") ? "recipe._target_" : "recipe")
                      .value_or("TrainFinetuneRecipeForNextTokenPrediction"));
      recipe != "TrainFinetuneRecipeForNextTokenPrediction")
    keys.refuse("recipe", "TrainFinetuneRecipeForNextTokenPrediction is planned");
  const std::int64_t world = read_world(keys);
  read_batches(keys, world);
  read_model(keys);
  read_shard(keys, world);
  read_checkpointing(keys);
  if (keys.in_file("distributed.autocast_dtype"))
    keys.option("distributed.autocast_dtype", "--autocast",
                dtype_of(keys, "distributed.autocast_dtype", "bfloat16"));
  constexpr const char* loss = "loss_fn._target_";
  const std::string name = last_of(keys.text(loss).value_or("MaskedCrossEntropy"));
  if (name == "MaskedCrossEntropy" || name == "FusedLinearCrossEntropy")
    keys.option(loss, "--loss", name == "MaskedCrossEntropy" ? "ce" : "lc-ce");
  else
    static_cast<void>(
        keys.unplanned(loss, "MaskedCrossEntropy and FusedLinearCrossEntropy are planned"));
  read_optimizer_of(keys);
  keys.option("clip_grad_norm.max_norm", "--clip-grad",
              keys.text("clip_grad_norm.max_norm").value_or("1.0"));
  read_adapters(keys);
}

}  // namespace

// components/config/loader.py, translate_value
const Tool automodel{"automodel", detects, read, true, true};

}  // namespace ac_advisor::intake
