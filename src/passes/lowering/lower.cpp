// The pass that writes a micro-batch's forward and loss, and what attention and losses refuse.
#include <string>

#include "ac_advisor/ir/derivation.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "lowering.hpp"
#include "passes/loop_names.hpp"
#include "passes/optimizer/grad_scaler.hpp"
#include "passes/pytorch_on_gpu.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr std::int64_t most_chunks = 65536;
constexpr std::int64_t most_logits_chunks = ir::Derivation::most_outputs;

std::string chunked_option(const ModelSpec&, const StepConfig& c) {
  return "--loss chunked:" + std::to_string(c.memory.chunk_tokens);
}

bool without_logits(const StepConfig& c) {
  return c.memory.loss == LossKind::lc_ce || c.memory.loss == LossKind::chunked ||
         c.memory.loss == LossKind::tiled;
}
bool chunks_logits(const StepConfig& c) { return c.memory.loss == LossKind::chunked_logits; }

bool has_odd_heads(const ModelSpec& m) { return !m.graph && m.head_dim % flash_head_multiple != 0; }
bool has_wide_heads(const ModelSpec& m) { return !m.graph && m.head_dim > widest_flash_head; }

/// Where attention is not scaled_dot_product_attention in eager mode.
bool attends_elsewhere(const StepConfig& c) {
  return pytorch_on_gpu(c) && !c.runtime.under_dispatch_mode && !c.megatron() &&
         (c.memory.kernels == Kernels::compiled || c.layout.cp > 1 ||
          (c.run.packing > 0 && c.run.attention == Attention::flash));
}
std::string attends_elsewhere_option(const ModelSpec& m, const StepConfig& c) {
  return std::string(c.memory.kernels == Kernels::compiled ? "--kernels compiled"
                     : c.layout.cp > 1                     ? "--cp"
                                                           : "--packing --attn flash") +
         " for heads of " + std::to_string(m.head_dim);
}

constexpr Exclusion exclusions_of_lower[] = {
    {"MODEL by Megatron's arguments, --transformer-impl hf", "transformers has no code for it",
     "use --framework megatron --transformer-impl transformer_engine (or local)",
     [](const ModelSpec& m, const StepConfig&) { return m.family == "megatron"; },
     [](const ModelSpec& m, const StepConfig&) { return m.name + ", --transformer-impl hf"; }},
    {"--attn flash, latent attention",
     "PyTorch's flash attention takes no values of another width than the keys",
     "use auto or eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.latent &&
              (c.run.attention == Attention::flash || c.run.attention == Attention::flash1);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--attn flash for " + m.family; }},
    {"--loss chunked:TOKENS", "a chunk has between 1 and 2147483648 tokens",
     "give a size such as chunked:1024",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::chunked &&
              (c.memory.chunk_tokens < 1 || c.memory.chunk_tokens > std::int64_t{1} << 31);
     },
     chunked_option},
    {"--loss chunked:TOKENS --batch B --seq S", "more than 65536 chunks", "use larger ones",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::chunked &&
              c.run.batch * c.run.seq / c.memory.chunk_tokens > most_chunks;
     },
     chunked_option},
    {"--loss lc-ce or chunked:TOKENS, an LM head with a bias",
     "these losses are planned without one", "use --loss ce",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.head_bias && without_logits(c) && c.memory.loss != LossKind::tiled;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--loss " + loss_option(c) + " for " + m.family;
     }},
    {"--loss other than ce and ce-no-upcast, an LM head whose rows are divided by their length",
     "these losses are planned of a weight as it is stored", "use --loss ce",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.normalized_head && c.memory.loss != LossKind::ce &&
              c.memory.loss != LossKind::ce_no_upcast;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--loss " + loss_option(c) + " for " + m.family;
     }},
    {"--autocast, an LM head whose rows are divided by their length, or an RMSNorm whose division "
     "is a function of its own",
     "what autocast casts of them is not planned", "add --autocast none",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.precision.autocast && (m.normalized_head || m.norm == model::Norm::rms_nested);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--autocast ") + autocast_option(c) + " for " + m.family;
     }},
    {"--loss ce-compiled --lora or --quantize",
     "TorchTitan, whose loss it is, trains no such adapters", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::ce_compiled &&
              (c.adapters.used() || c.adapters.quantize != Quantization::none);
     }},
    {"--loss ce-compiled, --shard other than none, ddp, fsdp2 and hsdp:R",
     "a compiled loss of DeepSpeed's engine is not planned yet", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::ce_compiled && c.layout.shard != Sharding::none &&
              c.layout.shard != Sharding::ddp && !c.layout.gathers();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--loss ce-compiled --shard " + shard_option(c);
     }},
    {"--loss ce-compiled --cuda-graph", "a compiled loss is planned outside of CUDA graphs",
     "leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::ce_compiled && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--loss chunked-logits:N, a sequence that N does not divide",
     "the chunks of logits and those of labels are then of other lengths",
     "give an N that divides --seq, such as 8",
     [](const ModelSpec&, const StepConfig& c) {
       return chunks_logits(c) &&
              (c.memory.chunk_tokens < 1 || c.memory.chunk_tokens > most_logits_chunks ||
               c.run.seq % c.memory.chunk_tokens != 0 || c.run.seq < 2);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--loss " + loss_option(c) + " --seq " + std::to_string(c.run.seq);
     }},
    {"--loss chunked-logits:N --shard zero1, zero2 or zero3",
     "torchtune, whose loss it is, does not run on DeepSpeed", "use --shard fsdp2, or --loss ce",
     [](const ModelSpec&, const StepConfig& c) { return chunks_logits(c) && c.layout.zero(); },
     [](const ModelSpec&, const StepConfig& c) {
       return "--loss " + loss_option(c) + " --shard " + shard_option(c);
     }},
    {"--loss tiled --seq 1", "leaves no next token to predict", "give 2 or more",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::tiled && c.run.seq < 2;
     }},
    {"--output-dtype fp32, a loss other than ce or ce-no-upcast",
     "it is the logits that are cast, and there are none", "use --loss ce, or leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.wide_output && (without_logits(c) || chunks_logits(c));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--output-dtype fp32 --loss " + loss_option(c);
     }},
    {"--dropout P", "a probability of at least 0 and below 1", "give one, such as 0.1",
     [](const ModelSpec&, const StepConfig& c) {
       return !(c.run.dropout >= 0.0 && c.run.dropout < 1.0);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--dropout " + std::to_string(c.run.dropout);
     }},
    {"--attn efficient, keys and values that queries share",
     "PyTorch's memory-efficient kernel does not take them as transformers gives them",
     "use --attn auto, math or eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.run.attention == Attention::efficient && m.kv_heads != m.heads;
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--attn efficient for " + std::to_string(m.heads) + " heads that share " +
              std::to_string(m.kv_heads) + " of keys and values";
     }},
    {"--attn efficient, --attn math, other than a step of PyTorch's on a GPU",
     "they are PyTorch's CUDA kernels, planned as eager blocks run them",
     "use flash, eager or auto",
     [](const ModelSpec& m, const StepConfig& c) {
       return (c.run.attention == Attention::efficient || c.run.attention == Attention::math) &&
              (c.device.gpu == "cpu" || c.runtime.kind != Runtime::pytorch || c.layout.tp > 1 ||
               c.memory.kernels == Kernels::compiled || m.graph != nullptr);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention);
     }},
    {"--attn cudnn or flash1 --gpu cpu",
     "they are kernels of a GPU; PyTorch has a flash attention of its own on a CPU",
     "use auto, flash or eager",
     [](const ModelSpec&, const StepConfig& c) {
       return c.device.gpu == "cpu" && c.runtime.kind == Runtime::pytorch &&
              (c.run.attention == Attention::cudnn || c.run.attention == Attention::flash1);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention) + " --gpu cpu";
     }},
    {"--attn other than eager and, where scores are soft-capped, flash, where they are so, have "
     "sinks or a bias, or are in fp32",
     "transformers has no scaled_dot_product_attention for such scores; flash-attn's function "
     "takes a cap, and no sinks or bias",
     "use --attn eager or auto, of soft-capped scores also flash",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.eager_attention_only && c.run.attention != Attention::automatic &&
              c.run.attention != Attention::eager && !model::caps_in_flash(m, c);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention) + " for " + m.family;
     }},
    {"--attn flash of soft-capped scores with --cp, dropout, fp32, --gpu cpu or the trainer",
     "they are flash-attn's own kernels (flash_attention_2): in bf16 and fp16 on a GPU, without "
     "dropout (flash_api.cpp: \"Softcapping does not support dropout for now\"); in a ring and in "
     "the trainer they are not planned",
     "use --attn eager or auto",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool wide = !c.precision.autocast && c.precision.compute_dtype == DType::f32;
       return model::caps_in_flash(m, c) &&
              (c.layout.cp > 1 || c.run.dropout > 0.0 || m.attention_dropout > 0.0 || wide ||
               c.device.gpu == "cpu" || c.runtime.kind == Runtime::ac_trainer);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--attn flash for " + m.family; }},
    {"--attn other than auto, where attention is always given a mask",
     "no flash kernel takes one, and its own eager attention is not planned yet", "use --attn auto",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.always_masked && c.run.attention != Attention::automatic;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention) + " for " + m.family;
     }},
    {"--attn cudnn or efficient, heads whose elements are no multiple of 8",
     "cuDNN's attention takes none, the memory-efficient kernel heads of whole 16 bytes alone "
     "(sdp_utils.cpp)",
     "use --attn auto or flash, for which PyTorch pads them",
     [](const ModelSpec& m, const StepConfig& c) {
       if (!has_odd_heads(m)) return false;
       const bool whole = m.head_dim * size_of(c.precision.compute_dtype) % 16 == 0;
       return c.run.attention == Attention::cudnn ||
              (c.run.attention == Attention::efficient && !whole);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention) + " for heads of " +
              std::to_string(m.head_dim);
     }},
    {"--kernels compiled, --cp or --packing with --attn flash, heads whose elements are no "
     "multiple "
     "of 8",
     "PyTorch pads them for flash attention: inside a graph, in a ring and for packed rows that is "
     "not planned",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_odd_heads(m) && attends_elsewhere(c);
     },
     attends_elsewhere_option},
    {"--kernels compiled, --cp or --packing with --attn flash, heads wider than 256",
     "neither flash attention nor cuDNN's takes them: what PyTorch runs in their place inside a "
     "graph or in a ring is not planned, and flash-attn has no such kernel",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_wide_heads(m) && attends_elsewhere(c);
     },
     attends_elsewhere_option},
    {"--autocast, where scores have a bias, are in fp32 or are computed without a kernel",
     "what autocast casts of them is not planned yet", "add --autocast none",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.precision.autocast && (m.alibi || m.fp32_scores || m.always_masked);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--autocast ") + autocast_option(c) + " for " + m.family;
     }},
    {"--pp N or --fsdp-unit torchtitan, where scores have a bias or blocks tables of angles",
     "what a stage, or a unit, then has beside the blocks is not planned yet", "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return (m.alibi || m.rotation == model::Rotation::table) &&
              (c.layout.pp > 1 || c.layout.fsdp_unit == FsdpUnit::torchtitan);
     },
     [](const ModelSpec& m, const StepConfig&) { return m.family; }},
};

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  LoopNames names(step, config);
  step.graph_held.clear();
  const StepConfig fed = as_fed(config);
  Lowering(spec, fed, step).forward();
  if (step.loss == ir::no_id) return;
  names.assign(step.loss, step.outputs);
  step.losses.push_back(step.loss);
  if (config.optimizer.grad_scaler) scale_loss(step);
}

}  // namespace

extern const Pass lower_pass;
const Pass lower_pass{"lower",
                      Stage::micro_batch,
                      "forward and loss, op by op, as transformers launches them",
                      always,
                      run,
                      exclusions_of_lower,
                      Of::transformers};

}  // namespace ac_advisor::passes
