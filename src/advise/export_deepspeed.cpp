// DeepSpeed's JSON. Keys: deepspeedai/DeepSpeed v0.19.8, deepspeed/runtime/config.py,
// zero/config.py, precision_config.py; optimizers: runtime/engine.py, _configure_basic_optimizer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "export_target.hpp"
#include "torch_dtype.hpp"

namespace ac_advisor::advise::exports {
namespace {

using Json = nlohmann::ordered_json;

/// What leaves the device: with parameters the optimizer, too.
Json with_offload(Json zero, const Setting& s) {
  const Json on_host = {{"device", "cpu"}, {"pin_memory", true}};
  if (s.c.memory.offload == Offload::parameters) zero["offload_param"] = on_host;
  if (s.c.memory.offload == Offload::parameters || s.c.memory.offload == Offload::optimizer)
    zero["offload_optimizer"] = on_host;
  return zero;
}

Json zero_optimization(const Setting& s, ExportResult& out) {
  if (s.c.layout.keep_last_block)
    s.refuse("--keep-last-block",
             "stage 3 releases parameters by its own counts (stage3_max_live_parameters); drop "
             "the option");
  switch (s.c.layout.shard) {
    case Sharding::none:
    case Sharding::ddp:
      return {{"stage", 0}};
    case Sharding::zero1:
    case Sharding::zero2:
      // The bucket is written out because it is 1 GB of bf16 that the plan counts.
      return with_offload({{"stage", s.c.layout.shard == Sharding::zero1 ? 1 : 2},
                           {"contiguous_gradients", true},
                           {"overlap_comm", s.c.layout.overlap_comm},
                           {"reduce_bucket_size", 500000000}},
                          s);
    case Sharding::zero3:  // its defaults, which the plan counts with
      return with_offload({{"stage", 3},
                           {"contiguous_gradients", true},
                           {"overlap_comm", true},
                           {"reduce_bucket_size", 500000000},
                           {"stage3_prefetch_bucket_size", 50000000},
                           {"stage3_param_persistence_threshold", 100000},
                           {"stage3_max_live_parameters", 1000000000},
                           {"stage3_max_reuse_distance", 1000000000},
                           {"sub_group_size", 1000000000}},
                          s);
    case Sharding::hsdp:  // runtime/config.py, _REMOVED_ZERO_CONFIG_KEYS: mics_shard_size
      s.refuse(s.shard(),
               "shards within groups were its MiCS, which has been removed; use --shard zero3, or "
               "export to hf");
    case Sharding::fsdp1:  // refused
    case Sharding::fsdp2:
      break;
  }
  out.other_technique =
      "stage 3 is ZeRO's own partition and buffers; the plan has PyTorch's fully_shard: with "
      "--shard "
      "zero3 it is DeepSpeed's";
  return with_offload({{"stage", 3}, {"contiguous_gradients", true}, {"overlap_comm", true}}, s);
}

Json optimizer(const Setting& s) {
  switch (s.c.optimizer.kind) {
    case Optimizer::adamw:
      if (s.c.layout.zero() && s.c.memory.offload != Offload::none)  // DeepSpeedCPUAdam
        return {{"type", "AdamW"}, {"params", Json::object()}};
      return {{"type", "AdamW"}, {"params", {{"torch_adam", true}, {"fused", true}}}};
    case Optimizer::adamw_foreach:
      return {{"type", "AdamW"}, {"params", {{"torch_adam", true}, {"foreach", true}}}};
    case Optimizer::sgd:
      return {{"type", "SGD"}, {"params", Json::object()}};
    default:
      s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
               "hand it the optimizer itself, as deepspeed.initialize(optimizer=…); use "
               "--optimizer adamw, adamw-foreach or sgd for a configuration");
  }
}

/// DeepSpeed has no switch for a Hugging Face model's checkpointing: it is one line of code.
void note_checkpointing(const Setting& s, ExportResult& out) {
  const bool plain = s.c.memory.ac == AcMode::full || s.c.memory.ac == AcMode::every;
  if (s.c.memory.ac == AcMode::none) return;
  if (s.c.memory.ac == AcMode::grouped || s.c.memory.ac == AcMode::sqrt)
    s.refuse(s.ac(),
             "only its PipelineModule takes several layers a checkpoint "
             "(activation_checkpoint_interval); use --ac full or every:K");
  if (!plain)
    s.refuse(s.ac(),
             "it checkpoints what the model's code tells it to, block by block; use --ac "
             "full or every:K");
  if (s.c.memory.scope == AcScope::submodule)
    s.refuse("--ac-scope submodule", "transformers checkpoints whole blocks; use --ac-scope block");
  out.notes.push_back(fmt::format(
      "before deepspeed.initialize: model.activation_checkpointing_enable({}) "
      "(transformers 5.23)",
      s.c.memory.ac == AcMode::every ? fmt::format("every_n_layers={}", s.c.memory.ac_arg) : ""));
}

void note_precision(const Setting& s, ExportResult& out) {
  out.notes.push_back(
      fmt::format("load the model with dtype=torch.{}", torch_dtype(s.c.precision.param_dtype)));
  if (s.c.precision.compute_dtype == DType::f32 || s.c.precision.autocast) return;
  const bool masters = s.c.layout.zero();
  if (!masters && s.c.precision.param_dtype == DType::bf16)
    out.notes.emplace_back(
        "with bf16 it keeps fp32 master parameters and moments, 8 bytes a "
        "parameter more than this plan (before partitioning)");
}

/// runtime/engine.py, _configure_distributed_model: module.bfloat16().
void check_precision(const Setting& s) {
  const Precision& p = s.c.precision;
  if (p.compute_dtype == DType::bf16 && !p.autocast && p.param_dtype == DType::f32)
    s.refuse("--param-dtype fp32 --compute-dtype bf16",
             "bf16.enabled casts the module whole; use --autocast bf16, or --param-dtype bf16");
}

void write(const Setting& s, ExportResult& out) {
  check_precision(s);
  if (s.c.memory.loss != LossKind::ce)
    s.refuse(s.loss(),
             "it trains the model's own loss; use --loss ce, or patch the model with "
             "Liger and export to hf");
  note_checkpointing(s, out);
  Json json = {
      {"train_batch_size", s.global_batch()},
      {"train_micro_batch_size_per_gpu", s.c.run.batch},
      {"gradient_accumulation_steps", s.c.run.grad_accum},
      {"bf16",
       {{"enabled", s.c.precision.compute_dtype == DType::bf16 && !s.c.precision.autocast}}},
      {"zero_optimization", zero_optimization(s, out)},
      {"optimizer", optimizer(s)}};
  if (s.c.precision.autocast) json["torch_autocast"] = {{"enabled", true}, {"dtype", "bfloat16"}};
  if (s.c.optimizer.clip_grad > 0) json["gradient_clipping"] = s.c.optimizer.clip_grad;
  if (s.c.layout.shard != Sharding::none)
    json["communication_data_type"] = to_option(s.c.precision.reduce_dtype);
  if (s.c.optimizer.kind == Optimizer::sgd) json["zero_allow_untested_optimizer"] = true;
  out.text = json.dump(2) + "\n";
  note_precision(s, out);
  if (s.c.memory.kernels == Kernels::fused)
    out.notes.emplace_back(
        "fused kernels are the model's: patch it with liger_kernel.transformers "
        "before deepspeed.initialize");
  if (s.c.layout.no_sync)
    out.notes.emplace_back("wrap all but the last micro-batch in engine.no_sync()");
  out.notes.push_back(
      fmt::format("run with deepspeed --num_gpus {}; sequences of {} tokens come "
                  "from the data; set lr under optimizer.params",
                  s.c.layout.world, s.c.run.seq));
  if (s.c.run.attention == Attention::flash1)
    s.refuse("--attn flash1",
             "PyTorch's flash attention is the second version since 2.2; use --attn flash");
  if (s.c.run.attention != Attention::automatic)
    out.notes.push_back(fmt::format("attention is the model's: load it for --attn {}",
                                    to_option(s.c.run.attention)));
  if (s.c.run.dropout > 0)
    out.notes.push_back(
        fmt::format("load the model with attention_dropout={}", decimal(s.c.run.dropout)));
}

constexpr std::string_view says[] = {"batch",
                                     "seq",
                                     "grad_accum",
                                     "world",
                                     "shard",
                                     "ac",
                                     "ac_scope",
                                     "loss",
                                     "kernels",
                                     "compile_unit",
                                     "offload",
                                     "optimizer",
                                     "clip_grad",
                                     "autocast",
                                     "param_dtype",
                                     "compute_dtype",
                                     "reduce_dtype",
                                     "attn",
                                     "dropout",
                                     "no_sync",
                                     "keep_last_block",
                                     "overlap_comm",
                                     "fp8",
                                     "fp8_all_gather",
                                     "grad_scaler",
                                     "lora",
                                     "adapter",
                                     "lora_targets",
                                     "lora_dropout",
                                     "dora",
                                     "quantize",
                                     "kbit_prepare",
                                     "tp",
                                     "cp",
                                     "ep",
                                     "pp",
                                     "master_weights",
                                     "optimizer_in_backward"};

}  // namespace

const Target deepspeed{"deepspeed", "DeepSpeed 0.19.8", write, says};

}  // namespace ac_advisor::advise::exports
