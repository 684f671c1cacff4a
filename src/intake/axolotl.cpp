// axolotl (0.21.0): the YAML of `axolotl train`, run by its subclass of transformers' Trainer, or
// of TRL's trainers (axolotl_rl.cpp). What its validators make of the keys:
// utils/schemas/validation.py, utils/schemas/config.py; dtypes: utils/config/__init__.py,
// resolve_dtype, and loaders/model.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  return file.find("base_model") != nullptr && file.find("model_name_or_path") == nullptr;
}

/// utils/schemas/enums.py, LEGACY_ATTN_FLAG_TO_IMPL.
struct AttentionFlag {
  std::string_view key, name;
};
constexpr AttentionFlag flags[] = {{"xformers_attention", "xformers"},
                                   {"sage_attention", "sage"},
                                   {"flex_attention", "flex_attention"},
                                   {"flash_attention", "flash_attention_2"},
                                   {"sdp_attention", "sdpa"},
                                   {"eager_attention", "eager"}};

/// normalize_attn_implementation: a flag is read where attn_implementation is not given.
std::string read_attention(Keys& keys) {
  std::string name = keys.text("attn_implementation").value_or("");
  std::string_view key = "attn_implementation";
  for (const AttentionFlag& flag : flags) {
    if (!keys.in_file(flag.key) || !keys.flag(flag.key)) continue;
    if (keys.in_file("attn_implementation"))
      keys.refuse(flag.key, "and attn_implementation exclude each other; keep the latter");
    if (!name.empty()) continue;
    name = flag.name, key = flag.key;
    keys.resolved("attn_implementation", name);
  }
  if (name == "flash_attention_2")
    keys.option(key, "--attn", "flash");
  else if (name == "eager")
    keys.option(key, "--attn", "eager");
  else if (!name.empty() && name != "sdpa")
    static_cast<void>(keys.unplanned(key, "sdpa, eager and flash_attention_2 are planned"));
  return name;
}

/// resolve_dtype, on a GPU that has bf16; _configure_precision_settings of the trainer's builder.
void read_precision(Keys& keys, bool adapters) {
  const bool fp16 = keys.flag("fp16"), float16 = keys.flag("float16");
  const std::string word = keys.text("bf16").value_or("false");
  const std::optional<bool> given = word == "auto" ? !fp16 : truth_of(word);
  if (!given) keys.refuse("bf16", "is true, false or auto");
  if (!keys.in_file("use_ray")) keys.resolved("bf16", *given ? "True" : "False");  // else later
  const bool bf16 = *given || keys.flag("bfloat16");
  const bool half = fp16 && !*given;
  if (fp16 || bf16) keys.resolved("fp16", half ? "True" : "False");
  const char* const key = half || float16 ? (fp16 ? "fp16" : "float16") : "bf16";
  const bool sixteen = !bf16 && (half || float16 || keys.flag("load_in_8bit"));
  const char* const dtype = bf16 ? "bf16" : sixteen ? "fp16" : "fp32";
  const bool of_fsdp = keys.under_fsdp() && (bf16 || half);
  keys.option(key, "--param-dtype", of_fsdp && !adapters ? "fp32" : dtype);
  if (of_fsdp)
    keys.option(key, "--compute-dtype", dtype);
  else if ((half || keys.value_of("--framework") == "liger") && (bf16 || half) &&
           !keys.under_zero())
    keys.option(key, "--autocast", half ? "fp16" : "bf16");
  if (bf16 || half) return;
  keys.option(key, "--autocast", "none");
  keys.option(key, "--compute-dtype", dtype);
}

/// The names that PEFT looks for; all linear layers of the blocks where lora_target_linear is on.
void read_targets(Keys& keys) {
  if (keys.flag("lora_target_linear")) {
    if (keys.in_file("lora_target_modules")) {
      static_cast<void>(keys.words("lora_target_modules"));
      keys.assume("lora_target_modules: lora_target_linear adapts all of these and more");
    }
    return keys.option("lora_target_linear", "--lora-targets", "all-linear");
  }
  const std::vector<std::string> targets = keys.words("lora_target_modules");
  if (targets.empty() && keys.in_file("lora_target_parameters")) return;  // which is not planned
  if (targets.empty())
    keys.refuse("lora_target_modules",
                "none; lora_target_linear: true adapts all linear layers of the blocks");
  if (targets.size() == 1 && targets[0] == "all-linear")
    return keys.option("lora_target_modules", "--lora-targets", "all-linear");
  for (const std::string& target : targets)
    if (target.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos) {
      static_cast<void>(keys.unplanned(
          "lora_target_modules", "patterns are not read; names such as q_proj and v_proj are"));
      return;
    }
  keys.option("lora_target_modules", "--lora-targets", fmt::format("{}", fmt::join(targets, ",")));
}

/// loaders/model.py, _set_quantization_config: 4 bits go with adapter: qlora, 8 with lora.
void read_quantization(Keys& keys, const std::string& adapter) {
  const bool four = keys.flag("load_in_4bit"), eight = keys.flag("load_in_8bit");
  if (adapter.empty()) {
    if (four || eight)
      keys.refuse(four ? "load_in_4bit" : "load_in_8bit",
                  "a quantized model is trained by adapters alone; adapter: qlora or lora");
    return;
  }
  if (adapter == "qlora" && eight) keys.refuse("load_in_8bit", "adapter: qlora is in 4 bits");
  if (adapter == "qlora" && !four) keys.refuse("adapter", "qlora needs load_in_4bit: true");
  if (adapter == "lora" && four)
    keys.assume("load_in_4bit: axolotl quantizes with adapter: qlora alone; planned is no 4 bits");
  if (adapter == "lora" && eight) keys.option("load_in_8bit", "--quantize", "int8");
  if (adapter != "qlora") return;
  bool nested = true;
  if (const Node* given =
          keys.in_file("bnb_config_kwargs") ? keys.node("bnb_config_kwargs") : nullptr)
    for (const auto& [name, value] : given->members) {
      if (name == "bnb_4bit_use_double_quant")
        nested = truth_of(value.text).value_or(true);
      else if (name == "bnb_4bit_quant_type" && value.text != "nf4")
        static_cast<void>(keys.unplanned("bnb_config_kwargs", "nf4 is planned"));
    }
  keys.option("load_in_4bit", "--quantize", nested ? "nf4-double" : "nf4");
}

/// Whether check_auto_enable_lora_kernels turns its fused layers on.
bool fuses_adapters(Keys& keys, const std::string& adapter) {
  bool given = false, on = false;
  for (const char* kernel :
       {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel"})
    if (keys.in_file(kernel)) given = true, on = keys.flag(kernel) || on;
  if (given) return on;
  if (is_axolotl_rl(keys)) return false;
  return !(adapter == "lora" && keys.flag("load_in_8bit")) && !keys.flag("trust_remote_code");
}

bool read_adapter(Keys& keys) {
  const std::string adapter = keys.text("adapter").value_or("");
  if (!adapter.empty() && adapter != "lora" && adapter != "qlora") {
    static_cast<void>(keys.unplanned("adapter", "lora and qlora are planned"));
    return false;
  }
  read_quantization(keys, adapter);
  if (adapter.empty()) return false;
  const std::optional<std::int64_t> rank = keys.number("lora_r");
  if (!rank) keys.refuse("lora_r", "none; the adapters' rank, such as 16");
  keys.option("lora_r", "--lora", std::to_string(*rank));
  read_targets(keys);
  read_dropout(keys, "lora_dropout", "--lora-dropout", "0.0");
  if (keys.flag("peft_use_dora")) keys.option("peft_use_dora", "--dora");
  // PEFT raises adapters to fp32 unless autocast_adapter_dtype is off.
  const bool raised =
      truth_of(keys.text("peft_autocast_adapter_dtype").value_or("true")).value_or(true);
  // TRL casts the adapters that it makes of a quantized model to bf16
  if (!keys.under_zero() && !trl_makes_adapters(keys))  // whose engine casts adapters, too
    keys.option("peft_autocast_adapter_dtype", "--lora-dtype", raised ? "fp32" : "bf16");
  if (fuses_adapters(keys, adapter))
    keys.assume(
        "lora_*_kernel: axolotl's fused adapters are on, PEFT's layers are planned, which save "
        "more between forward and backward");
  return true;
}

/// utils/config, normalize_config: not reentrant unless ZeRO 3 shards;
/// validation.py, check_gradient_checkpointing_w_offload.
void read_checkpointing(Keys& keys) {
  const std::string word = keys.text("gradient_checkpointing").value_or("false");
  const bool offload = word == "offload";
  const std::optional<bool> on = offload ? true : truth_of(word);
  if (word == "offload_disk")
    static_cast<void>(
        keys.unplanned("gradient_checkpointing", "activations on disk are not planned"));
  else if (!on)
    keys.refuse("gradient_checkpointing", "is true, false, offload or offload_disk");
  keys.resolved("gradient_checkpointing", on.value_or(true) ? "True" : "False");
  if (keys.value_of("--ac").empty() ||
      keys.by_hand("--ac"))  // else FSDP's activation_checkpointing
    keys.option("gradient_checkpointing", "--ac", on.value_or(true) ? "full" : "none");
  const std::string to = keys.text("activation_offloading").value_or("false");
  if (offload) keys.resolved("activation_offloading", "True");
  if (const std::optional<bool> moves = offload ? true : truth_of(to); !moves)
    static_cast<void>(keys.unplanned("activation_offloading", "true is planned, TRL's streams"));
  else if (*moves && !on.value_or(true))
    keys.refuse("activation_offloading", "requires gradient_checkpointing");
  else if (*moves)
    keys.option("activation_offloading", "--offload", "activations");
  const Node* kwargs = keys.in_file("gradient_checkpointing_kwargs")
                           ? keys.node("gradient_checkpointing_kwargs")
                           : nullptr;
  const Node* reentrant = kwargs == nullptr ? nullptr : kwargs->find("use_reentrant");
  if (reentrant != nullptr ? truth_of(reentrant->text).value_or(false)
                           : keys.value_of("--shard") == "zero3")
    read_reentrant(keys, "gradient_checkpointing_kwargs");
}

/// FSDP2 alone; the prefix fsdp_ of its keys is old (check_fsdp_config_kwargs_prefix).
void read_fsdp(Keys& keys) {
  if (keys.in_file("fsdp")) keys.refuse("fsdp", "axolotl 0.21 has FSDP2 alone: use fsdp_config");
  if (!keys.in_file("fsdp_config")) return;
  const Node& config = *keys.node("fsdp_config");
  if (keys.in_file("deepspeed")) keys.refuse("fsdp_config", "and deepspeed exclude each other");
  if (config.kind != Node::Kind::map) keys.refuse("fsdp_config", "is a map");
  if (config.members.empty()) return;
  if (keys.by_hand("--shard"))
    return keys.assume("fsdp_config: --shard by hand says how parameters are sharded");
  const auto value = [&](const std::string& name) {
    for (const std::string& spelt : {name, "fsdp_" + name})
      if (const Node* given = config.find(spelt)) return given->text;
    return std::string();
  };
  const std::string version =
      keys.in_file("fsdp_version") ? keys.text("fsdp_version").value_or("2") : value("version");
  if (!version.empty() && version != "2")
    keys.refuse(keys.in_file("fsdp_version") ? "fsdp_version" : "fsdp_config",
                "axolotl 0.21 has FSDP2 alone: fsdp_version: 2");
  keys.option("fsdp_config", "--shard", "fsdp2");
  if (truth_of(value("activation_checkpointing")).value_or(false))
    keys.option("fsdp_config", "--ac", "full");
  if (truth_of(value("offload_params")).value_or(false))
    keys.option("fsdp_config", "--offload", "parameters");
  if (!truth_of(value("reshard_after_forward")).value_or(true))
    keys.option("fsdp_config", "--reshard-after-forward", "false");
}

void read_batches(Keys& keys) {
  const std::int64_t micro = keys.number("micro_batch_size").value_or(1);
  keys.option("micro_batch_size", "--batch", std::to_string(micro));
  std::int64_t accumulate = keys.number("gradient_accumulation_steps").value_or(0);
  if (keys.in_file("batch_size") && !keys.in_file("gradient_accumulation_steps") && micro > 0)
    accumulate = keys.number("batch_size").value_or(micro) / micro;
  if (accumulate > 1)
    keys.option("gradient_accumulation_steps", "--grad-accum", std::to_string(accumulate));
  keys.option("sequence_len", "--seq", std::to_string(keys.number("sequence_len").value_or(512)));
}

/// core/builders/causal.py: rows are joined where the attention reads where each document ends.
void read_packing(Keys& keys, const std::string& attention) {
  const bool joins = attention == "flash_attention_2";
  const std::int64_t micro = keys.number("micro_batch_size").value_or(1);
  const std::string documents = std::to_string(micro);
  const bool packs = keys.flag("sample_packing");
  const std::string flattens = keys.text("batch_flattening").value_or("false");
  if (packs) {
    if (!keys.in_file("pad_to_sequence_len")) keys.resolved("pad_to_sequence_len", "True");
    const std::string real = keys.text("multipack_real_batches").value_or(joins ? "false" : "true");
    if (!truth_of(real).value_or(false)) keys.option("sample_packing", "--packing", documents);
    keys.assume(
        "packed rows are planned with one document each; shorter ones attend to less and hold as "
        "much");
    if (!joins && attention != "")
      keys.assume(
          "sample_packing: documents in a row are kept apart by a mask or varlen_attn, "
          "which is not planned");
  } else if (flattens == "auto" ? joins && micro > 1 : truth_of(flattens).value_or(false)) {
    keys.option("batch_flattening", "--packing", documents);
  }
  if (flattens == "auto")
    keys.resolved("batch_flattening", joins && micro > 1 && !packs ? "True" : "False");
  if (!packs && !keys.flag("pad_to_sequence_len"))
    keys.assume(
        "each row is planned sequence_len tokens long, an upper bound: shorter batches hold less");
}

/// Kernels of its plugins: Liger's three together are --kernels fused; with its loss it is the
/// preset `liger`, whose chunk the model decides.
void read_plugins(Keys& keys) {
  bool liger = false;
  std::string framework = is_axolotl_rl(keys) ? "trl" : "hf-trainer";
  for (const std::string& plugin : keys.words("plugins")) {
    const auto is = [&](std::string_view part) { return plugin.find(part) != std::string::npos; };
    if (is_axolotl_rl(keys) && (is("cut_cross_entropy") || is("liger"))) {
      static_cast<void>(keys.unplanned("plugins", "its kernels are not planned beside rl"));
    } else if (is("cut_cross_entropy")) {
      if (!keys.in_file("cut_cross_entropy") || keys.flag("cut_cross_entropy"))
        keys.option("plugins", "--loss", "lc-ce");
    } else if (is("liger")) {
      liger = true;
    } else if (!is("lm_eval") && !is("swanlab") && !is("context_parallel") &&
               !is("expert_parallel")) {
      static_cast<void>(keys.unplanned(
          "plugins", "liger and cut_cross_entropy are planned; " + plugin + " is not"));
    }
  }
  if (liger) {
    const char* const glu = keys.in_file("liger_swiglu") ? "liger_swiglu" : "liger_glu_activation";
    const int on =
        int{keys.flag("liger_rope")} + int{keys.flag("liger_rms_norm")} + int{keys.flag(glu)};
    if (on > 0 && on < 3)
      static_cast<void>(keys.unplanned(
          "plugins",
          "Liger's rope, rms_norm and glu_activation are planned together or not at all"));
    if (keys.flag("liger_layer_norm"))
      keys.assume("liger_layer_norm: models of RMSNorm have none; of others it is not planned");
    const bool chunked = keys.flag("liger_fused_linear_cross_entropy");
    if (chunked) framework = "liger";
    if (chunked != (on == 3)) keys.option("plugins", "--kernels", on == 3 ? "fused" : "eager");
  }
  keys.option("plugins", "--framework", framework);
}

void read(Keys& keys) {
  read_plugins(keys);
  keys.out().model_key = "base_model";
  keys.out().model = keys.text("base_model").value_or("");
  keys.assume("axolotl 0.21.0 runs transformers 5.20; planned is 5.23");
  read_batches(keys);
  read_optimizer(keys, "optimizer");
  // core/builders/base.py leaves it to the Trainer's default where it is not given.
  keys.option("max_grad_norm", "--clip-grad", keys.text("max_grad_norm").value_or("1.0"));
  if (keys.text("torch_compile").value_or("false") == "auto" || keys.flag("torch_compile"))
    static_cast<void>(
        keys.unplanned("torch_compile", "the Trainer compiles the whole model without its loss"));
  if (keys.in_file("deepspeed")) read_deepspeed(keys, "deepspeed");
  read_fsdp(keys);
  const bool adapters = read_adapter(keys);
  if (is_axolotl_rl(keys)) read_axolotl_rl(keys, adapters);
  read_precision(keys, adapters);
  read_checkpointing(keys);
  const std::string attention = read_attention(keys);
  if (is_axolotl_rl(keys))
    assume_longest(keys, "sequence_len");
  else
    read_packing(keys, attention);
  if (keys.in_file("tokens")) {
    static_cast<void>(keys.words("tokens"));
    keys.assume("tokens: rows that they may add to the embedding are not planned");
  }
  // loaders/model.py, should_convert_embedding_dtypes.
  if (!adapters && !keys.in_file("fsdp_config") &&
      (attention.empty() || attention == "sdpa" || attention == "eager") &&
      keys.value_of("--loss") != "lc-ce" && keys.value_of("--param-dtype") != "fp32" &&
      !keys.under_zero())
    keys.assume(
        "attn_implementation: beside sdpa axolotl keeps the embedding, the LM head and the norms "
        "in fp32; they are planned in bf16, so the plan is too low by what they take more");
}

}  // namespace

const Tool axolotl{"axolotl", detects, read};

}  // namespace ac_advisor::intake
