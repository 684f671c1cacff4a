// ms-swift (4.6.0): the arguments of `swift sft`, `pt` and `rlhf`, in the script that starts them
// or as YAML. swift/arguments/*.py, swift/trainers/{arguments,mixin,seq2seq_trainer}.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  if (file.find("swift") != nullptr) return true;
  const Node* model = file.find("model");
  if (model == nullptr || model->kind != Node::Kind::scalar) return false;
  return std::ranges::any_of(
      std::to_array({"tuner_type", "train_type", "rlhf_type", "torch_dtype", "attn_impl",
                     "lora_rank", "per_device_train_batch_size"}),
      [&](const char* key) { return file.find(key) != nullptr; });
}

constexpr Renamed renamed[] = {{"train_type", "tuner_type", "ms-swift 4"},
                               {"sft_type", "tuner_type", "ms-swift 4"},
                               {"model_id_or_path", "model", "ms-swift 3"},
                               {"lora_target_modules", "target_modules", "ms-swift 3"},
                               {"batch_size", "per_device_train_batch_size", "ms-swift 3"},
                               {"dtype", "torch_dtype", "ms-swift 3"},
                               {"quantization_bit", "quant_bits", "ms-swift 3"}};

/// A number of the environment that a YAML file asks for (cli/main.py, parse_yaml_args: ENV), of
/// as many digits at most; 0: it does not say it.
std::int64_t in_environment(Keys& keys, const char* name, std::size_t digits) {
  if (!keys.in_file("ENV")) return 0;
  const Node& environment = *keys.node("ENV");
  if (environment.kind != Node::Kind::map) keys.refuse("ENV", "is a map of variables");
  const Node* given = environment.find(name);
  if (given == nullptr) return 0;
  const bool number = !given->text.empty() && given->text.size() <= digits &&
                      given->text.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t count = number ? std::stoll(given->text) : 0;
  if (count < 1) keys.refuse("ENV", fmt::format("{} is a number of 1 or more", name));
  return count;
}

std::int64_t processes_of(Keys& keys) {
  const std::int64_t ranks = read_launcher(keys);
  if (ranks > 0 || !keys.in_file("ENV")) return ranks;
  std::int64_t all = 0;
  for (const char* name : {"NPROC_PER_NODE", "NNODES"})
    if (const std::int64_t count = in_environment(keys, name, 4); count > 0)
      all = std::max<std::int64_t>(all, 1) * count;
  if (all > most_count) keys.refuse("ENV", "more processes than there can be");
  return all;
}

/// utils/torch_utils.py, is_mp: with more devices than processes the model's layers are spread.
std::int64_t read_world(Keys& keys) {
  if (const std::int64_t given = keys.world(); given > 0 && keys.by_hand("--world")) return given;
  constexpr const char* devices = "CUDA_VISIBLE_DEVICES";
  const std::int64_t started = processes_of(keys), ranks = std::max<std::int64_t>(started, 1);
  if (keys.in_file(devices) && !keys.left_open(devices, "--world")) {
    const auto visible = std::ssize(keys.words(devices));
    const bool nodes = keys.in_file("NNODES") || keys.in_file("--nnodes");
    if (!nodes && visible > ranks)
      static_cast<void>(keys.unplanned(
          devices,
          fmt::format("with {} for {} devices device_map spreads the layers; NPROC_PER_NODE={} "
                      "trains in parallel",
                      ranks == 1 ? "one process" : fmt::format("{} processes", ranks), visible,
                      visible)));
  } else if (started == 0) {
    keys.assume("NPROC_PER_NODE: not set, one process on one GPU is planned; --world N for more");
  }
  if (ranks > 1) set_world(keys, ranks, "ENV");
  return ranks;
}

/// trainers/arguments.py, __post_init__: 16 rows a step unless it is told.
void read_batch(Keys& keys, std::int64_t world) {
  constexpr const char* batch = "per_device_train_batch_size";
  constexpr const char* accumulate = "gradient_accumulation_steps";
  if (!keys.left_open(batch, "--batch"))
    keys.option(batch, "--batch", std::to_string(keys.count(batch, 1)));
  if (keys.left_open(accumulate, "--grad-accum")) return;
  std::int64_t steps = 0;
  if (keys.in_file(accumulate)) {
    steps = keys.count(accumulate, 1);
  } else if (!keys.by_hand("--grad-accum")) {
    const std::int64_t rows = std::max<std::int64_t>(std::stoll(keys.value_of("--batch")), 1);
    steps = std::max<std::int64_t>(1, (16 + rows * world - 1) / (rows * world));
    static_cast<void>(keys.number(accumulate));
    keys.resolved(accumulate, std::to_string(steps));
  }
  if (steps > 1) keys.option(accumulate, "--grad-accum", std::to_string(steps));
}

constexpr const char* zero_names[] = {"zero0", "zero1",         "zero2",
                                      "zero3", "zero2_offload", "zero3_offload"};

/// swift/config/<name>.json
Node zero_config(const std::string& name) {
  const bool offloads = name.ends_with("_offload");
  const std::string device = offloads ? "cpu" : "none", stage = name.substr(4, 1);
  std::vector<Member> zero = {{"stage", scalar_of(stage)}, {"overlap_comm", scalar_of("false")}};
  if (stage != "3") zero.push_back({"reduce_bucket_size", scalar_of("2e8")});
  if (stage != "0") zero.push_back({"offload_optimizer", map_of({{"device", scalar_of(device)}})});
  if (stage == "3") zero.push_back({"offload_param", map_of({{"device", scalar_of(device)}})});
  return map_of({{"zero_optimization", map_of(std::move(zero))}});
}

void read_sharding(Keys& keys, std::int64_t world) {
  if (keys.in_file("deepspeed") && !keys.left_open("deepspeed", "--shard")) {
    const Node& given = *keys.node("deepspeed");
    const auto* const named = std::ranges::find(zero_names, given.text);
    if (keys.by_hand("--shard"))
      keys.assume("deepspeed: --shard by hand says how parameters are sharded");
    else if (named != std::end(zero_names))
      read_zero(keys, "deepspeed", zero_config(*named));
    else
      read_deepspeed(keys, "deepspeed");
  }
  if (keys.in_file("fsdp") && !keys.left_open("fsdp", "--shard")) {
    if (keys.in_file("deepspeed")) keys.refuse("fsdp", "is not for use with deepspeed");
    if (keys.text("fsdp").value_or("") == "fsdp2")
      keys.option("fsdp", "--shard", "fsdp2");
    else
      static_cast<void>(keys.unplanned("fsdp", "the preset fsdp2 is planned"));
  }
  if (world > 1 && keys.value_of("--shard").empty() && keys.in_file("NPROC_PER_NODE"))
    keys.option("NPROC_PER_NODE", "--shard", "ddp");
  else if (world > 1 && keys.value_of("--shard").empty()) {
    keys.out().options.emplace_back("--shard", "ddp");
    keys.assume("several processes without deepspeed or fsdp are planned as DDP");
  }
}

/// base_args/model_args.py, _init_torch_dtype and _init_mixed_precision: the model is loaded in
/// torch_dtype, and autocast is of bf16 where that is bf16, else of fp16.
void read_precision(Keys& keys, bool adapters) {
  const std::optional<std::string> given = keys.text("torch_dtype");
  const std::string dtype = given.value_or("bfloat16");
  if (!given) keys.assume("torch_dtype: none is the checkpoint's own, planned as bfloat16");
  if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32")
    keys.refuse("torch_dtype", "is bfloat16, float16 or float32");
  const bool bf16 = keys.in_file("bf16") ? keys.flag("bf16") : dtype == "bfloat16";
  const bool fp16 = keys.in_file("fp16") ? keys.flag("fp16") : dtype != "bfloat16";
  for (const auto& [name, on] : {std::pair{"bf16", bf16}, std::pair{"fp16", fp16}})
    if (!keys.in_file(name)) {
      static_cast<void>(keys.text(name));
      keys.resolved(name, on ? "True" : "False");
    }
  if (bf16 && fp16) keys.refuse("fp16", "and bf16 exclude each other");
  const char* const key = fp16 ? "fp16" : "bf16";
  const std::string own = dtype == "bfloat16" ? "bf16" : dtype == "float16" ? "fp16" : "fp32";
  if (keys.under_zero() && (bf16 || fp16)) {
    keys.option(key, "--param-dtype", fp16 ? "fp16" : "bf16");
  } else if (keys.under_fsdp() && (bf16 || fp16)) {
    keys.option(key, "--param-dtype", adapters ? own : "fp32");
    if (fp16) keys.option(key, "--compute-dtype", "fp16");
  } else {
    if (own == "fp16" && !adapters && fp16)
      keys.refuse(key,
                  "parameters that are trained in fp16 have no gradients to unscale; "
                  "torch_dtype float32 or bfloat16");
    keys.option("torch_dtype", "--param-dtype", own);
    if (fp16) keys.option(key, "--autocast", "fp16");
    if (!fp16 && !bf16) {
      keys.option("bf16", "--autocast", "none");
      keys.option("bf16", "--compute-dtype", own);
    }
  }
  if (!adapters) return;
  // tuners/peft.py: PEFT's own cast to fp32 is left out where lora_dtype is given
  const std::string lora = keys.text("lora_dtype").value_or("float32");
  if (lora != "float32" && lora != "bfloat16")
    keys.refuse("lora_dtype", "float32 and bfloat16 are planned");
  if (keys.under_zero()) return;  // whose engine casts adapters, too
  keys.option("lora_dtype", "--lora-dtype", lora == "bfloat16" ? "bf16" : "fp32");
}

void read_quantization(Keys& keys, bool adapters) {
  const std::optional<std::string> method = keys.text("quant_method");
  const std::optional<std::string> bits = keys.text("quant_bits");
  if (!method && !bits) return;
  const char* const key = method ? "quant_method" : "quant_bits";
  if (!method)
    keys.assume("quant_bits: without quant_method ms-swift 4 quantizes nothing; bnb is planned");
  if (method && *method != "bnb")
    return static_cast<void>(keys.unplanned(key, "bitsandbytes' is planned, bnb"));
  if (!bits) keys.refuse("quant_method", "wants quant_bits");
  if (!adapters) keys.refuse(key, "a quantized model is trained by adapters alone");
  if (*bits != "4" && *bits != "8") keys.refuse("quant_bits", "by bitsandbytes is 4 or 8");
  if (*bits == "8") return keys.option("quant_bits", "--quantize", "int8");
  if (keys.text("bnb_4bit_quant_type").value_or("nf4") != "nf4")
    static_cast<void>(keys.unplanned("bnb_4bit_quant_type", "nf4 is planned"));
  const std::string dtype = keys.text("torch_dtype").value_or("bfloat16"),
                    computes = dtype == "bfloat16" ? "bfloat16" : "float32";  // quant_args.py
  if (keys.text("bnb_4bit_compute_dtype").value_or(computes) != dtype)
    static_cast<void>(
        keys.unplanned("bnb_4bit_compute_dtype", "products in torch_dtype are planned"));
  keys.option("quant_bits", "--quantize",
              keys.flag("bnb_4bit_use_double_quant") ? "nf4-double" : "nf4");
}

/// Linear layers that adapters are asked for.
std::vector<std::string> read_targets(Keys& keys) {
  if (keys.in_file("target_modules")) return keys.words("target_modules");
  static_cast<void>(keys.node("target_modules"));
  keys.resolved("target_modules", "all-linear");
  return {"all-linear"};
}

/// Whether adapters are trained.
bool read_tuner(Keys& keys) {
  const std::string type = keys.text("tuner_type").value_or("lora");
  if (type == "full") return false;
  if (type != "lora") {
    static_cast<void>(keys.unplanned("tuner_type", "full and lora are planned"));
    return false;
  }
  keys.option("lora_rank", "--lora", std::to_string(keys.count("lora_rank", 8)));
  const std::vector<std::string> targets = read_targets(keys);
  const auto has = [&](const char* name) {
    return std::ranges::find(targets, name) != targets.end();
  };
  if (has("all-embedding") || (has("all-linear") && targets.size() > 1))
    static_cast<void>(keys.unplanned(
        "target_modules", "adapters on embeddings, or beside all linear layers, are not planned"));
  if (has("all-linear"))
    keys.option("target_modules", "--lora-targets", "all-linear");
  else
    keys.option("target_modules", "--lora-targets", fmt::format("{}", fmt::join(targets, ",")));
  read_dropout(keys, "lora_dropout", "--lora-dropout", "0.05");
  if (keys.flag("use_dora")) keys.option("use_dora", "--dora");
  return true;
}

void read_attention(Keys& keys) {
  const std::string attention = keys.text("attn_impl").value_or("sdpa");
  const bool flash = attention == "flash_attn" || attention == "flash_attention_2";
  if (flash)
    keys.option("attn_impl", "--attn", "flash");
  else if (attention == "eager")
    keys.option("attn_impl", "--attn", "eager");
  else if (attention != "sdpa")
    static_cast<void>(keys.unplanned("attn_impl", "sdpa, eager and flash_attn are planned"));
  for (const char* key : {"packing", "padding_free"})
    if (!flash && keys.flag(key) && !attention.starts_with("flash_attention"))
      keys.refuse(key, "wants flash attention: attn_impl flash_attn (sft_args.py)");
}

void read_lengths(Keys& keys) {
  const bool packs = keys.flag("packing"), joins = keys.flag("padding_free");
  const char* const key = packs && keys.in_file("packing_length") ? "packing_length" : "max_length";
  if (!keys.left_open(key, "--seq")) {
    if (const std::optional<std::int64_t> length = keys.number(key))
      keys.option(key, "--seq", std::to_string(*length));
    else if (!keys.by_hand("--seq"))
      keys.refuse(key,
                  "none: rows are as long as the data has them, up to the model's longest; give "
                  "--seq N by hand");
  }
  if (packs) {  // sft_args.py, _check_padding_free; base_args.py
    keys.resolved("padding_free", "True");
    if (!keys.in_file("packing_length")) {
      static_cast<void>(keys.text("packing_length"));
      keys.resolved("packing_length", keys.text("max_length").value_or(keys.value_of("--seq")));
    }
  }
  if (packs || joins) {
    keys.option(packs ? "packing" : "padding_free", "--packing", keys.value_of("--batch"));
    assume_one_document(keys);
  } else {
    assume_longest(keys, "max_length");
  }
  if (keys.value_of("--framework") != "ms-swift")
    keys.assume(
        "the logits of all tokens are planned: ms-swift leaves out those of a row's prompt "
        "(use_logits_to_keep)");
}

/// trainers/mixin.py, _fix_gradient_checkpointing: reentrant unless it is DDP or told otherwise.
void read_checkpoints(Keys& keys, std::int64_t world) {
  constexpr const char* key = "gradient_checkpointing";
  constexpr const char* more = "gradient_checkpointing_kwargs";
  if (keys.left_open(key, "--ac")) return;
  const bool whole = keys.value_of("--shard") == "fsdp2";
  if (whole) {
    static_cast<void>(keys.text(key));
    keys.option("fsdp", "--ac", "full");
    return keys.assume(
        "fsdp: fsdp2's activation_checkpointing takes the place of gradient_checkpointing");
  }
  keys.option(key, "--ac", keys.flag(key) ? "full" : "none");
  std::optional<bool> reentrant;
  if (keys.in_file(more)) {
    const Node given = config_of(keys, more, "as JSON in place");
    if (const Node* word = given.find("use_reentrant")) reentrant = truth_of(word->text);
  }
  const bool ddp = world > 1 && !keys.under_zero() && !keys.under_fsdp();
  if (reentrant.value_or(!ddp)) read_reentrant(keys, keys.in_file(more) ? more : key);
}

/// qwen_vl_utils 0.0.14, vision_process.py: what an image is resized to at most. ms-swift takes its
/// limits from the environment (model/models/qwen.py, compat_qwen_vl_utils), and rescales images to
/// max_pixels before that.
std::int64_t most_pixels_of(Keys& keys, const model::TowerRun& run) {
  const std::int64_t token = run.patch * run.merge * run.patch * run.merge;
  constexpr std::int64_t tokens_by_default = 16384;
  const auto set = [&](const char* name) -> std::int64_t {
    if (keys.in_file(name))
      return keys.left_open(name, "--image-pixels") ? 0 : keys.number(name).value_or(0);
    return in_environment(keys, name, 12);
  };
  const std::int64_t tokens = set("IMAGE_MAX_TOKEN_NUM"), pixels = set("MAX_PIXELS");
  const std::int64_t most = tokens > 0   ? tokens * token
                            : pixels > 0 ? pixels / token * token
                                         : tokens_by_default * token;
  const std::int64_t first = set("max_pixels");
  return first > 0 ? std::min(first, most) : most;
}

/// Of a model with an encoder of images: what is trained of it, and its images
/// (arguments/tuner_args.py, _init_multimodal_full; utils/transformers_utils.py,
/// get_multimodal_target_regex). An encoder of which nothing is trained runs without gradients
/// (model/patcher.py, patch_frozen_module).
void read_encoder(Keys& keys, bool adapters) {
  constexpr FreezeKeys names{"freeze_vit", "freeze_aligner", "freeze_llm"};
  constexpr const char* checkpoints = "vit_gradient_checkpointing";
  if (!keys.tower()) return;
  FrozenParts frozen = read_frozen(keys, names);
  if (const std::vector<std::string> targets = read_targets(keys);
      adapters && std::ranges::find(targets, "all-linear") == targets.end())
    frozen = without_adapters(keys, {}, targets);
  if (frozen.tower && frozen.projector && frozen.decoder)
    keys.refuse(names.decoder, "nothing is trained then: freeze_vit or freeze_aligner false");
  const char* const limit = keys.in_file("IMAGE_MAX_TOKEN_NUM") ? "IMAGE_MAX_TOKEN_NUM"
                            : keys.in_file("MAX_PIXELS")        ? "MAX_PIXELS"
                                                                : "max_pixels";
  const std::optional<model::TowerRun>& run = keys.tower()->run;
  const bool images = read_images(keys, limit, run ? most_pixels_of(keys, *run) : 0);
  const bool encoder = !frozen.tower || !frozen.projector;
  if (!images && encoder && !adapters)
    static_cast<void>(keys.unplanned(
        frozen.tower ? names.projector : names.tower,
        "the encoder's gradients by rows of text, which ms-swift gives a small image each"));
  if (images || adapters) set_frozen(keys, names.tower, frozen);
  const bool of_decoder = keys.value_of("--ac") == "full";
  const bool of_encoder = keys.in_file(checkpoints) ? keys.flag(checkpoints) : of_decoder;
  if (!keys.in_file(checkpoints)) {  // sft_args.py
    static_cast<void>(keys.text(checkpoints));
    keys.resolved(checkpoints, of_encoder ? "True" : "False");
  }
  if (!images || !encoder) return;
  if (of_encoder) keys.option(checkpoints, "--tower-ac");
  if (of_encoder && !of_decoder && keys.value_of("--shard") != "ddp")
    keys.option(checkpoints, "--ac-reentrant");
  // trainers/mixin.py, _prepare_gradient_checkpointing: enable_input_require_grads
  if (of_encoder || of_decoder) keys.option(checkpoints, "--input-require-grads", "on");
}

/// Those whose step another of TRL's is like, by the same name.
constexpr std::string_view tasks_of_trl[] = {"orpo", "simpo"};

/// rlhf_trainers/dpo_trainer.py, dpo_loss, and kto_trainer.py: what a loss makes of a number a row.
constexpr std::string_view losses_of_pairs[] = {
    "sigmoid", "hinge",     "ipo",          "exo_pair", "nca_pair", "robust",  "bco_pair",
    "aot",     "sppo_hard", "aot_unpaired", "discopop", "apo_zero", "apo_down"};

/// Its own trainers of DPO and KTO, over TRL 0.29's.
void read_comparison(Keys& keys, const std::string& type) {
  constexpr const char* loss = "loss_type";
  keys.option("rlhf_type", "--task", type);
  const std::string planned = type == "dpo" ? "sigmoid" : "kto";
  if (keys.in_file(loss)) {
    for (const std::string& each : keys.words(loss)) {
      const bool like = type == "dpo"
                            ? std::ranges::find(losses_of_pairs, each) != std::end(losses_of_pairs)
                            : each == "kto";
      if (!like) static_cast<void>(keys.unplanned(loss, planned + " and its like are planned"));
      if (like && each != planned) assume_loss(keys, loss, each, planned);
    }
  }
  if (type == "dpo" && keys.in_file("rpo_alpha") && is_weighted(keys, "rpo_alpha"))
    keys.assume("rpo_alpha: the mean that it weighs is made without it, too");
  const bool full = keys.text("tuner_type").value_or("lora") == "full";
  if (keys.in_file("ref_model")) {
    if (!full)
      keys.refuse("ref_model", "LoRA training takes none: the model with its adapters off");
    if (keys.text("ref_model") != keys.out().model)
      static_cast<void>(keys.unplanned("ref_model", "a reference of another size is not planned"));
  }
  keys.option("tuner_type", "--ref", full ? "model" : "adapter");
  if (!keys.by_hand("--prompt"))
    keys.assume(
        "--prompt N says how many tokens of a row are its prompt's, whose logits are not "
        "made: none are taken for granted");
}

/// rlhf_trainers/: its own trainers over TRL 0.29's, whose logits are whole.
void read_task(Keys& keys) {
  constexpr const char* key = "rlhf_type";
  const bool yaml = !keys.in_file("swift");
  const std::string method =
      yaml ? (keys.in_file(key) ? "rlhf" : "sft") : keys.text("swift").value_or("sft");
  const char* framework = "hf-trainer";
  if (method != "rlhf" && keys.in_file("loss_type"))
    static_cast<void>(keys.unplanned("loss_type", "another loss than the model's is not planned"));
  if (method == "rlhf") {
    const std::string type = keys.text(key).value_or("dpo");
    if (type == "rm") {
      framework = "trl";
      keys.option(key, "--task", "reward");
    } else if (type == "dpo" || type == "kto") {
      framework = "ms-swift";
      read_comparison(keys, type);
    } else if (std::ranges::find(tasks_of_trl, type) != std::end(tasks_of_trl)) {
      framework = "trl";
      static_cast<void>(keys.unplanned(
          key, fmt::format("ms-swift's own {} computes row by row; without this key TRL 1.16's "
                           "step is planned, --task {}",
                           type, type)));
      keys.option(key, "--task", type);
    } else {
      keys.refuse(key,
                  "dpo, kto and rm are planned, orpo and simpo as TRL's; of GRPO, TRL's step and "
                  "verl's, by --task grpo with the model's name in place of the file");
    }
  }
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", framework);
}

/// loss_scale/mapping.py: a base strategy and `ignore_…` choose tokens, and agents' strategies
/// weigh them, which makes the loss one by token.
void read_loss(Keys& keys) {
  const std::string scale = keys.text("loss_scale").value_or("default");
  if (!keys.in_file("loss_scale")) {  // pretrain_args.py; rlhf_args.py, _set_loss_scale
    const std::string method = keys.in_file("swift") ? keys.text("swift").value_or("sft") : "sft";
    const bool preferences = method == "rlhf" || keys.in_file("rlhf_type");
    const bool last = preferences && keys.text("rlhf_type").value_or("dpo") != "orpo";
    keys.resolved("loss_scale", method == "pt" ? "all" : last ? "last_round" : "default");
  }
  for (std::size_t at = 0; at < scale.size();) {
    const std::size_t end = std::min(scale.find('+', at), scale.size());
    const std::string part = scale.substr(at, end - at);
    if (part != "default" && part != "last_round" && part != "all" &&
        !part.starts_with("ignore_")) {
      static_cast<void>(keys.unplanned("loss_scale", "a loss that weighs tokens is not planned"));
      return;
    }
    at = end + 1;
  }
}

void read(Keys& keys) {
  read_model_path(keys, "model");
  read_task(keys);
  keys.assume("ms-swift 4.6.0 runs transformers below 5.20; planned is 5.23");
  const std::int64_t world = read_world(keys);
  read_batch(keys, world);
  read_optimization(keys, "1.0");
  read_sharding(keys, world);
  const bool adapters = read_tuner(keys);
  read_precision(keys, adapters);
  read_quantization(keys, adapters);
  read_attention(keys);
  read_lengths(keys);
  read_loss(keys);
  read_checkpoints(keys, world);
  read_encoder(keys, adapters);
}

}  // namespace

const Tool ms_swift{"ms-swift", detects, read, false, false, renamed};

}  // namespace ac_advisor::intake
