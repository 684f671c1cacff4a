// Megatron-LM's flags. Names: NVIDIA/Megatron-LM core_v0.19.0, megatron/training/arguments.py, and
// the dataclasses whose fields become flags there: core/transformer/transformer_config.py
// (--recompute-*, --attention-*), training/config/ (--micro-batch-size, --use-torch-fsdp2).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "export_target.hpp"

namespace ac_advisor::advise::exports {
namespace {

using Flags = std::vector<std::string>;

/// Chunks of `blocks` blocks, each recomputed from its input; the last may be shorter.
void add_uniform(Flags& flags, std::int64_t blocks) {
  flags.insert(flags.end(), {"--recompute-granularity full", "--recompute-method uniform",
                             fmt::format("--recompute-num-layers {}", blocks)});
}

void add_checkpointing(const Setting& s, Flags& flags, ExportResult& out) {
  if (s.c.memory.scope == AcScope::submodule && s.c.memory.ac != AcMode::none)
    s.refuse("--ac-scope submodule",
             "its attention with both projections is no choice of --recompute-modules; use "
             "--ac-scope block");
  switch (s.c.memory.ac) {
    case AcMode::none:
      return;
    case AcMode::full:
      add_uniform(flags, 1);
      break;
    case AcMode::grouped:
      add_uniform(flags, s.c.memory.ac_arg);
      break;
    case AcMode::sqrt: {
      const auto segments =
          static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(s.model.layers))));
      add_uniform(flags, (s.model.layers + segments - 1) / segments);
      if (s.model.layers % segments != 0)
        out.notes.emplace_back("its last chunk is shorter; the plan's segments are balanced");
      break;
    }
    case AcMode::first:
      flags.insert(flags.end(), {"--recompute-granularity full", "--recompute-method block",
                                 fmt::format("--recompute-num-layers {}", s.c.memory.ac_arg)});
      break;
    case AcMode::modules:
      flags.insert(flags.end(), {"--recompute-granularity selective",
                                 "--recompute-modules " + layer_parts_text(s.c, " ")});
      return;
    case AcMode::attention:
      flags.insert(flags.end(),
                   {"--recompute-granularity selective", "--recompute-modules core_attn"});
      return;
    case AcMode::selective:
      s.refuse(s.ac(), "its selective recomputes modules, not ops; use --ac attention or full");
    default:
      s.refuse(s.ac(),
               "its block method recomputes the first blocks, not every K-th; use --ac full or "
               "grouped:K");
  }
  if (!s.c.megatron())
    out.notes.emplace_back(
        "it recomputes a region to its end; the plan stops at the last value that "
        "backward needs");
}

void add_sharding(const Setting& s, Flags& flags, ExportResult& out) {
  if (s.c.layout.keep_last_block)
    s.refuse("--keep-last-block",
             "--torch-fsdp2-no-reshard-after-forward keeps all blocks or none; drop the option");
  switch (s.c.layout.shard) {
    case Sharding::none:
    case Sharding::ddp:
    case Sharding::fsdp1:  // refused
      return;
    case Sharding::zero1:
      flags.emplace_back("--use-distributed-optimizer");
      return;
    case Sharding::fsdp2:
      if (s.model.tied_embeddings)
        s.refuse(
            s.shard() + " with tied embeddings",
            "--use-torch-fsdp2 needs --untie-embeddings-and-output-weights; use --shard zero1");
      flags.insert(flags.end(), {"--use-torch-fsdp2", "--no-gradient-accumulation-fusion",
                                 "--ckpt-format torch_dist"});
      break;
    case Sharding::zero3:
      s.refuse(s.shard(), "it has no DeepSpeed; use --shard zero1, zero2, fsdp2 or hsdp:N");
    case Sharding::zero2:
    case Sharding::hsdp:
      flags.insert(flags.end(), {"--use-megatron-fsdp", "--use-distributed-optimizer",
                                 s.c.layout.shard == Sharding::zero2
                                     ? "--data-parallel-sharding-strategy optim_grads"
                                     : "--data-parallel-sharding-strategy "
                                       "optim_grads_params",
                                 "--ckpt-format fsdp_dtensor"});
      if (s.c.layout.shard == Sharding::hsdp)
        flags.push_back(fmt::format("--num-distributed-optimizer-instances {}", s.replicas()));
      out.other_technique = "Megatron-FSDP's communication buffers are others than the plan's";
      break;
  }
  out.notes.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS must not be 1 with FSDP");
}

void add_precision(const Setting& s, Flags& flags, ExportResult& out) {
  if (s.c.precision.compute_dtype == DType::f32) {
    if (s.c.precision.reduce_dtype != DType::f32)
      s.refuse(std::string("--reduce-dtype ") + to_option(s.c.precision.reduce_dtype),
               "without --bf16 and --fp16 gradients are reduced in fp32; leave it out");
    return;
  }
  if (s.c.precision.compute_dtype == DType::f16) {
    flags.emplace_back("--fp16");
    if (s.c.precision.reduce_dtype == DType::f32)
      flags.emplace_back("--accumulate-allreduce-grads-in-fp32");
    if (!s.c.layout.zero() && !s.c.megatron())
      out.notes.emplace_back(
          "with --fp16 it keeps fp32 main parameters and moments: 8 bytes per parameter more than "
          "this plan (before sharding)");
    return;
  }
  if (s.c.precision.reduce_dtype == DType::f16)
    s.refuse("--reduce-dtype fp16",
             "beside --bf16 gradients are reduced in bf16 or fp32; use one of these");
  flags.emplace_back("--bf16");
  // of its own step main gradients are in fp32, whether or not there is somebody to reduce with
  flags.emplace_back(s.c.precision.reduce_dtype == DType::bf16 && !s.c.megatron()
                         ? "--grad-reduce-in-bf16"
                         : "--accumulate-allreduce-grads-in-fp32");
  if (s.c.precision.param_dtype == DType::bf16 && !s.c.layout.zero() && !s.c.megatron())
    out.notes.emplace_back(
        "with --bf16 it keeps fp32 main parameters and moments, and fp32 gradients unless "
        "--grad-reduce-in-bf16: 8 to 10 bytes per parameter more than this plan (before sharding)");
  if (s.c.precision.param_dtype == DType::f32)
    out.notes.emplace_back(
        "with --bf16 it keeps bf16 parameters beside the fp32 main ones, 2 bytes "
        "a parameter more than this plan (before sharding)");
}

const char* attention_backend(const Setting& s) {
  switch (s.c.run.attention) {
    case Attention::automatic:
      return "auto";
    case Attention::flash:
      return "flash";
    case Attention::cudnn:
      return "fused";
    case Attention::eager:
      return "unfused";
    default:
      s.refuse(std::string("--attn ") + to_option(s.c.run.attention),
               "--attention-backend is auto, flash, fused (cuDNN) or unfused; use --attn auto, "
               "flash, cudnn or eager");
  }
}

bool adam(const Setting& s) {
  return s.c.optimizer.kind == Optimizer::adamw || s.c.optimizer.kind == Optimizer::adamw_foreach;
}

void check(const Setting& s) {
  const bool fused = s.c.megatron() && s.c.memory.loss == LossKind::ce_compiled;
  if (s.c.memory.loss != LossKind::ce && !fused)
    s.refuse(s.loss(), "its cross-entropy reads whole logits, fused or not; use --loss ce");
  if (s.c.memory.kernels == Kernels::eager)
    s.refuse("--kernels eager", "its layers are Transformer Engine's; use --kernels fused");
  if (s.c.precision.autocast)
    s.refuse(std::string("--autocast ") + autocast_option(s.c),
             "its parameters are stored in bf16 (--bf16) or fp16 (--fp16); drop --autocast");
  s.refuse_adapters("pretrain_gpt.py has none; export to hf, or drop the adapters");
  if (!adam(s) && s.c.optimizer.kind != Optimizer::sgd &&
      s.c.optimizer.kind != Optimizer::sgd_momentum)
    s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
             "the plan has neither its Muon nor its CPU optimizer; use --optimizer adamw or sgd");
}

/// --pp-layers A,B,…,B,Z: what the first and the last stage have.
void add_stage_sizes(const Setting& s, Flags& flags) {
  const std::vector<std::int64_t>& layers = s.c.layout.pp_layers;
  if (layers.empty()) return;
  const bool one_each = static_cast<std::int64_t>(layers.size()) == s.c.layout.pp;
  const bool middle_alike =
      layers.size() < 3 || std::all_of(layers.begin() + 1, layers.end() - 1,
                                       [&](std::int64_t n) { return n == layers[1]; });
  if (!one_each || !middle_alike)
    s.refuse("--pp-layers " + pp_layers_text(s.c),
             "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers leave the "
             "same to all stages between them; use such a split");
  flags.push_back(fmt::format("--decoder-first-pipeline-num-layers {}", layers.front()));
  flags.push_back(fmt::format("--decoder-last-pipeline-num-layers {}", layers.back()));
}

/// Of a plan of Megatron-core's own step.
void add_layout(const Setting& s, Flags& flags) {
  const Layout& layout = s.c.layout;
  flags.push_back(fmt::format("--transformer-impl {}", to_option(s.c.run.transformer_impl)));
  if (!s.c.memory.fused_gradients) flags.emplace_back("--no-gradient-accumulation-fusion");
  if (s.c.precision.float8()) {
    flags.emplace_back("--fp8-format hybrid");
    flags.push_back(fmt::format("--fp8-recipe {}", to_option(s.c.precision.fp8)));
  }
  flags.push_back(fmt::format("--tensor-model-parallel-size {}", layout.tp));
  if (layout.tp > 1 && layout.sequence_parallel) flags.emplace_back("--sequence-parallel");
  flags.push_back(fmt::format("--pipeline-model-parallel-size {}", layout.pp));
  if (layout.cp > 1) {
    flags.push_back(fmt::format("--context-parallel-size {}", layout.cp));
    flags.emplace_back("--cp-comm-type p2p");
  }
  if (s.model.moe) {
    flags.push_back(fmt::format("--expert-model-parallel-size {}", layout.ep));
    flags.push_back(fmt::format("--expert-tensor-parallel-size {}", layout.expert_tp()));
  }
  if (s.c.runtime.deterministic) flags.emplace_back("--deterministic-mode");
  if (layout.optimizer_instances > 1)
    flags.push_back(
        fmt::format("--num-distributed-optimizer-instances {}", layout.optimizer_instances));
  if (layout.pp_chunks > 1)
    flags.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", layout.pp_chunks));
  add_stage_sizes(s, flags);
  if (s.c.memory.loss == LossKind::ce_compiled) {
    flags.emplace_back("--cross-entropy-loss-fusion");
    flags.emplace_back("--cross-entropy-fusion-impl native");
  }
}

void write(const Setting& s, ExportResult& out) {
  check(s);
  const bool own = s.c.megatron();
  const double dropout =
      own && s.c.run.dropout == 0.0 ? s.model.attention_dropout : s.c.run.dropout;
  Flags flags = {fmt::format("--micro-batch-size {}", s.c.run.batch),
                 fmt::format("--global-batch-size {}", s.global_batch()),
                 fmt::format("--seq-length {}", s.c.run.seq),
                 fmt::format("--attention-dropout {}", decimal(dropout)),
                 fmt::format("--hidden-dropout {}", decimal(own ? s.model.residual_dropout : 0.0)),
                 fmt::format("--attention-backend {}", attention_backend(s)),
                 fmt::format("--optimizer {}", adam(s) ? "adam" : "sgd")};
  // Its own is 0.9.
  if (!adam(s))
    flags.push_back(fmt::format("--sgd-momentum {}",
                                s.c.optimizer.kind == Optimizer::sgd_momentum ? "0.9" : "0.0"));
  if (!s.model.tied_embeddings) flags.emplace_back("--untie-embeddings-and-output-weights");
  if (s.model.moe && s.c.run.capacity_factor != 1.0)
    flags.push_back(
        fmt::format("--moe-expert-capacity-factor {}", decimal(s.c.run.capacity_factor)));
  flags.push_back(fmt::format("--clip-grad {}", decimal(s.c.optimizer.clip_grad)));
  if (own) add_layout(s, flags);
  add_precision(s, flags, out);
  add_sharding(s, flags, out);
  add_checkpointing(s, flags, out);
  out.text = fmt::format("# {}\nMEGATRON_ARGS=(\n", s.target.version);
  for (const std::string& flag : flags) out.text += "  " + flag + "\n";
  constexpr std::int64_t usual = 8;
  const std::int64_t world = s.c.layout.world,
                     most = s.c.layout.node_size > 0 ? s.c.layout.node_size : usual,
                     node = std::min(world, most), each = world % node == 0 ? node : 1;
  out.text += fmt::format(
      ")\ntorchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py \"${{MEGATRON_ARGS[@]}}\"\n",
      each, world / each);
  out.notes.push_back(
      "the model's own sizes come from its checkpoint (--use-checkpoint-args) or your flags: plan "
      "what is written with --model");
  if (s.c.optimizer.kind == Optimizer::adamw_foreach)
    out.notes.emplace_back("its adam is one fused kernel (--optimizer adamw)");
}

constexpr std::string_view says[] = {"batch",
                                     "seq",
                                     "grad_accum",
                                     "world",
                                     "tp",
                                     "cp",
                                     "ep",
                                     "etp",
                                     "pp",
                                     "pp_schedule",
                                     "pp_layers",
                                     "shard",
                                     "ac",
                                     "ac_scope",
                                     "loss",
                                     "kernels",
                                     "compile_unit",
                                     "optimizer",
                                     "clip_grad",
                                     "param_dtype",
                                     "compute_dtype",
                                     "reduce_dtype",
                                     "autocast",
                                     "attn",
                                     "dropout",
                                     "capacity_factor",
                                     "deterministic",
                                     "fp8",
                                     "offload",
                                     "keep_last_block",
                                     "sequence_parallel",
                                     "optimizer_instances",
                                     "transformer_impl",
                                     "master_weights",
                                     "optimizer_in_backward",
                                     "fp8_all_gather",
                                     "gradient_accumulation_fusion"};

}  // namespace

const Target megatron{"megatron", "Megatron-LM core_v0.19.0", write, says};

}  // namespace ac_advisor::advise::exports
