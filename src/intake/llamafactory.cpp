// LLaMA-Factory's stages sft and pt, run by transformers' Trainer, dpo, kto and rm (0.9.5): the
// YAML of `llamafactory-cli train`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  for (const char* key : {"finetuning_type", "cutoff_len", "template"})
    if (file.find(key) != nullptr) return file.find("model_name_or_path") != nullptr;
  return false;
}

/// model/adapter.py, init_adapter: trained parameters are cast to fp32 unless pure_bf16 (or ZeRO 3,
/// which keeps fp32 masters itself); model_args.py loads the rest in the dtype that it computes in.
void read_precision(Keys& keys, bool adapters) {
  const bool pure = keys.flag("pure_bf16"), bf16 = keys.flag("bf16"), fp16 = keys.flag("fp16");
  const char* const key = pure ? "pure_bf16" : fp16 ? "fp16" : "bf16";
  if (bf16 && fp16) keys.refuse("fp16", "and bf16 exclude each other");
  if (!pure && !bf16 && !fp16) {
    keys.option(key, "--param-dtype", adapters ? "bf16" : "fp32");
    keys.option(key, "--autocast", "none");
    keys.option(key, "--compute-dtype", adapters ? "bf16" : "fp32");
    return;
  }
  const bool zero = keys.under_zero();
  if (fp16 && keys.under_fsdp())
    keys.option(key, "--compute-dtype", "fp16");
  else if (fp16 && !zero)
    keys.option(key, "--autocast", "fp16");
  keys.option(key, "--param-dtype", pure || adapters || zero ? (fp16 ? "fp16" : "bf16") : "fp32");
  if (pure && !zero) keys.option(key, "--autocast", "none");
  if (adapters && !zero) keys.option(key, "--lora-dtype", pure ? "bf16" : "fp32");
}

bool read_adapter(Keys& keys) {
  const std::string type = keys.text("finetuning_type").value_or("lora");
  const std::optional<std::int64_t> bits = keys.number("quantization_bit");
  if (type == "full") {
    if (bits)
      keys.refuse("quantization_bit",
                  "is for finetuning_type lora or oft (hparams/parser.py, _verify_model_args)");
    return false;
  }
  if (type != "lora") {
    static_cast<void>(keys.unplanned("finetuning_type", "full and lora are planned"));
    return false;
  }
  keys.option("lora_rank", "--lora", std::to_string(keys.number("lora_rank").value_or(8)));
  const std::vector<std::string> targets = keys.words("lora_target");
  if (targets.size() == 1 && targets[0] == "all")
    keys.option("lora_target", "--lora-targets", "all-linear");
  else
    keys.option("lora_target", "--lora-targets", fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "lora_dropout", "--lora-dropout", "0.0");
  if (keys.flag("use_dora")) keys.option("use_dora", "--dora");
  if (bits && *bits != 4 && *bits != 8)
    keys.refuse("quantization_bit", "by bitsandbytes is 4 or 8");
  if (bits && *bits == 8) keys.option("quantization_bit", "--quantize", "int8");
  if (bits && *bits == 4) {
    if (keys.text("quantization_type").value_or("nf4") != "nf4")
      static_cast<void>(keys.unplanned("quantization_type", "nf4 is planned"));
    keys.option("quantization_bit", "--quantize",
                keys.flag("double_quantization") ? "nf4-double" : "nf4");
  }
  return true;
}

void read_attention(Keys& keys) {
  const std::string attention = keys.text("flash_attn").value_or("auto");
  if (attention == "fa2")
    keys.option("flash_attn", "--attn", "flash");
  else if (attention == "disabled")
    keys.option("flash_attn", "--attn", "eager");
  else if (attention != "auto" && attention != "sdpa")
    static_cast<void>(keys.unplanned("flash_attn", "auto, sdpa, fa2 and disabled are planned"));
}

/// train/dpo/trainer.py: TRL 0.24's dpo_loss is called without a loss_type, so hinge, ipo and
/// kto_pair are computed as sigmoid.
void read_pairs(Keys& keys) {
  const std::string loss = keys.text("pref_loss").value_or("sigmoid");
  const bool own = loss == "orpo" || loss == "simpo";
  keys.option("pref_loss", "--task", own ? loss : "dpo");
  if (!own && loss != "sigmoid")
    keys.assume("pref_loss " + loss + " holds what sigmoid does: TRL's dpo_loss is not told of it");
}

/// trainer_utils.py, create_ref_model: the model once more, unless there are adapters.
void read_reference(Keys& keys) {
  if (keys.value_of("--task") != "dpo" && keys.value_of("--task") != "kto") return;
  const std::optional<std::string> second = keys.text("ref_model");
  if (second && *second != keys.out().model)
    static_cast<void>(keys.unplanned("ref_model", "a reference of another size is not planned"));
  const bool adapters = keys.text("finetuning_type").value_or("lora") == "lora";
  keys.option(second ? "ref_model" : "finetuning_type", "--ref",
              adapters && !second ? "adapter" : "model");
}

constexpr FreezeKeys freeze_keys{"freeze_vision_tower", "freeze_multi_modal_projector",
                                 "freeze_language_model"};

/// model/adapter.py and model_utils/visual.py: what is trained of a model with an encoder of
/// images. `all` never means a projector's layers; Qwen3-VL's DeepStack has its mergers among the
/// encoder's.
FrozenParts trained_parts(Keys& keys, bool adapters) {
  FrozenParts frozen = read_frozen(keys, freeze_keys);
  const std::optional<model::TowerRun>& run = keys.tower()->run;
  const bool taps = run && !run->taps.empty();
  const std::vector<std::string> targets = keys.words("lora_target");
  const bool all = targets.size() == 1 && targets[0] == "all";
  if (!adapters) {
    if (taps && frozen.tower != frozen.projector)
      static_cast<void>(keys.unplanned(
          freeze_keys.projector,
          "DeepStack's mergers are frozen with the encoder, not with the projector"));
  } else if (!all) {
    frozen = without_adapters(keys, frozen, targets);
  } else if (taps && !frozen.tower) {
    if (frozen.projector)
      static_cast<void>(
          keys.unplanned(freeze_keys.projector,
                         "DeepStack's mergers get adapters with the encoder, the last one none"));
  } else {
    frozen.projector = true;
  }
  if (frozen.tower && frozen.projector && frozen.decoder)
    keys.refuse(freeze_keys.decoder, "nothing is trained then");
  if (adapters && frozen.tower && !frozen.projector)
    static_cast<void>(
        keys.unplanned(freeze_keys.projector, "adapters of a projector alone are not planned"));
  return frozen;
}

/// data/mm_plugin.py, _preprocess_image: an image with more pixels is made smaller; "768 * 768".
std::int64_t most_pixels_of(Keys& keys) {
  constexpr const char* key = "image_max_pixels";
  if (keys.in_file(key)) return keys.count(key, 1);
  constexpr std::int64_t by_default = 768 * 768;
  static_cast<void>(keys.text(key));
  keys.resolved(key, std::to_string(by_default));
  return by_default;
}

/// What is trained, the images, and what checkpointing.py's get_custom_gradient_checkpointing_func
/// makes of them: blocks without a trained tensor are no checkpoints, the input of those that have
/// some requires a gradient. So a frozen encoder of Qwen2.5-VL, whose patches PEFT's hook makes
/// require one, saves all of its activations beside adapters.
void read_encoder(Keys& keys, bool adapters) {
  if (!keys.tower()) return;
  const FrozenParts frozen = trained_parts(keys, adapters);
  const bool images = read_images(keys, "image_max_pixels", most_pixels_of(keys));
  if (images || adapters) set_frozen(keys, freeze_keys.tower, frozen);
  constexpr const char* off = "disable_gradient_checkpointing";
  if (!images || keys.flag(off)) return;
  if (!frozen.tower) keys.option(off, "--tower-ac");
  if (frozen.decoder && keys.flag("use_reentrant_gc"))
    keys.option("use_reentrant_gc", "--ac-reentrant");
  // PEFT hooks the embedding of each model inside
  const bool hooked = keys.tower()->run->form == model::TowerForm::qwen2_5;
  if (adapters && (hooked || !frozen.tower)) keys.option(off, "--input-require-grads", "on");
}

/// Which trainer; what it compares with.
void read_stage(Keys& keys) {
  const std::string stage = keys.text("stage").value_or("sft");
  constexpr std::string_view stages[] = {"sft", "pt", "dpo", "kto", "rm"};
  if (std::find(std::begin(stages), std::end(stages), stage) == std::end(stages))
    keys.refuse("stage", "sft, pt, dpo, kto and rm are planned from LLaMA-Factory's files");
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "llamafactory");
  if (stage == "kto") keys.option("stage", "--task", "kto");
  if (stage == "rm") keys.option("stage", "--task", "reward");
  if (stage == "dpo") read_pairs(keys);
  read_reference(keys);
}

void read(Keys& keys) {
  keys.out().model_key = "model_name_or_path";
  keys.out().model = keys.text("model_name_or_path").value_or("");
  read_stage(keys);
  keys.assume("LLaMA-Factory 0.9.5 runs transformers 4.55 to 5.6; planned is 5.23");
  read_trainer_arguments(keys);
  keys.option("cutoff_len", "--seq", std::to_string(keys.number("cutoff_len").value_or(2048)));
  if (keys.flag("neat_packing")) {
    keys.option("neat_packing", "--packing",
                std::to_string(keys.number("per_device_train_batch_size").value_or(8)));
    assume_one_document(keys);
  } else if (!keys.flag("packing") && keys.text("stage").value_or("sft") != "pt") {
    assume_longest(keys, "cutoff_len");
  }
  const bool adapters = read_adapter(keys);
  read_precision(keys, adapters);
  const bool frozen = keys.tower() && keys.flag(freeze_keys.decoder);
  keys.option(frozen ? freeze_keys.decoder : "disable_gradient_checkpointing", "--ac",
              frozen || keys.flag("disable_gradient_checkpointing") ? "none" : "full");
  // model/model_utils/checkpointing.py, prepare_model_for_training: not under FSDP2
  const bool reentrant = keys.flag("use_reentrant_gc");
  if (reentrant && keys.value_of("--shard") != "fsdp2") read_reentrant(keys, "use_reentrant_gc");
  if (!reentrant && keys.value_of("--ac") == "full")
    keys.option("use_reentrant_gc", "--no-ac-reentrant");
  read_attention(keys);
  read_encoder(keys, adapters);
}

}  // namespace

const Tool llamafactory{"llamafactory", detects, read};

}  // namespace ac_advisor::intake
