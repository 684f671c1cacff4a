// What is planned of --kernels compiled, and what is not.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/checkpointing/around_compiled.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool compiled(const StepConfig& c) { return c.memory.kernels == Kernels::compiled; }

bool adapted(const StepConfig& c) { return compiled(c) && c.adapters.used(); }

bool with_dora(const StepConfig& c) { return adapted(c) && c.adapters.dora; }

bool whole(const StepConfig& c) { return c.memory.compile_unit == CompileUnit::model; }

/// torch/_inductor/config.py (v2.11): max_pointwise_cat_inputs
constexpr std::int64_t most_parts_joined = 8;

bool in_parts(const StepConfig& c) { return c.layout.tp > 1 || c.layout.pp > 1; }

/// Experts whose ops the joint graph has not.
bool experts_not_traced(const ModelSpec& m) {
  const model::MoeSpec& moe = *m.moe;
  const model::ClassFacts& facts = model::class_facts(m.family);
  return facts.router != model::Router::usual || facts.shared != model::SharedMlp::last ||
         moe.softmax_of_top || moe.sparse_mixer || moe.every_expert || moe.biased ||
         moe.top_groups > 1;
}

/// Blocks whose ops the joint graph has not.
bool not_traced(const ModelSpec& m) {
  using model::QkvLayout;
  const bool known_layout = m.qkv_layout == QkvLayout::sliced || m.qkv_layout == QkvLayout::split ||
                            m.qkv_layout == QkvLayout::by_head ||
                            m.qkv_layout == QkvLayout::grouped ||
                            m.qkv_layout == QkvLayout::stacked;
  return (m.moe && experts_not_traced(m)) || m.latent || (m.fused_qkv && !known_layout) ||
         m.rotation != model::Rotation::halves || m.attention_sinks || m.kv_sharing ||
         m.position_grids != model::PositionGrids::one || m.tower || m.always_masked ||
         m.residual_inside || m.adds_in_place || m.activation == model::Activation::gelu_recomputed;
}

/// Blocks whose ops were not compared within a graph of the model.
bool not_traced_whole(const ModelSpec& m) {
  return not_traced(m) || m.moe || m.norm == model::Norm::layer || m.side_by_side ||
         m.interleaved_rotary || m.position_table > 0 || m.input_first ||
         (m.fused_qkv && m.qkv_layout != model::QkvLayout::sliced) ||
         (m.plain_mlp && m.activation != model::Activation::relu2);
}

/// Other blocks than Llama's kind: RMSNorm, separate projections, rotated halves, a gated MLP.
bool of_other_kind(const ModelSpec& m) {
  return not_traced(m) || m.moe || m.norm != model::Norm::rms || m.plain_mlp || m.side_by_side ||
         m.joined_rotary_part || m.interleaved_rotary || m.fused_qkv || m.fused_gate_up ||
         m.position_table > 0 || m.input_first ||
         (m.activation != model::Activation::silu && m.activation != model::Activation::gelu_tanh);
}

bool breaks_at_attention(const ModelSpec& m, const StepConfig& c) {
  return graph_breaks(m, c) == GraphBreaks::at_attention;
}

bool drops_scores(const ModelSpec& m, const StepConfig& c) {
  return c.run.dropout > 0.0 || m.attention_dropout > 0.0;
}

/// Whether scores are computed op by op.
bool of_many_kernels(const ModelSpec& m, const StepConfig& c) {
  return c.run.attention == Attention::eager ||
         (m.eager_attention_only && !model::caps_in_flash(m, c));
}

bool by_budget(const StepConfig& c) {
  return c.memory.ac == AcMode::memory_budget || c.memory.ac == AcMode::budget;
}

/// Checkpoints of none or of whole blocks, or what the partitioner keeps.
bool keeps_blocks_whole(const StepConfig& c) {
  const AcMode ac = c.memory.ac;
  return ac == AcMode::none || ac == AcMode::full || ac == AcMode::every ||
         ac == AcMode::selective || by_budget(c);
}

/// Scores whose ops the joint graph has.
bool scores_traced(const ModelSpec& m, const StepConfig& c) {
  return keeps_blocks_whole(c) && c.memory.ac != AcMode::budget && !m.fp32_scores &&
         !m.narrow_softmax && !m.alibi && !whole(c) && c.device.gpu != "cpu" &&
         c.runtime.kind != Runtime::ac_trainer;
}

/// The first sliding window within the sequence, for which transformers builds a mask; 0: none.
std::int64_t masked_window(const ModelSpec& m, const StepConfig& c) {
  for (std::int64_t w : m.window)
    if (w > 0 && w <= c.run.seq) return w;
  return 0;
}

constexpr Exclusion of_compiled[] = {
    {"--compile-unit model, --kernels other than compiled", "there is nothing that is compiled",
     "add --kernels compiled",
     [](const ModelSpec&, const StepConfig& c) { return whole(c) && !compiled(c); }},
    {"--compile-unit model, a loss other than ce",
     "the loss is a part of the graph, and transformers' own is planned so far",
     "use --loss ce, or --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.memory.loss != LossKind::ce;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--compile-unit model --loss " + loss_option(c);
     }},
    {"--compile-unit model, --ac other than none, full, every:K, selective and memory-budget:F",
     "what else is kept inside of the graph is not planned",
     "use one of those, or --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       const AcMode ac = c.memory.ac;
       return whole(c) && ac != AcMode::none && ac != AcMode::full && ac != AcMode::every &&
              ac != AcMode::selective && ac != AcMode::memory_budget;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--compile-unit model --ac " + ac_option(c);
     }},
    {"--compile-unit model, --attn other than cudnn",
     "the graph has a mask, which cuDNN's attention takes and flash does not: PyTorch falls back "
     "to its memory-efficient kernel, which is not planned compiled",
     "give --attn cudnn (what an H100 runs), or --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.run.attention != Attention::cudnn;
     }},
    {"--compile-unit model --shard other than none",
     "Dynamo may not trace FSDP2's hooks, so PyTorch makes no full graph of the model, and what "
     "remains of it, or of one under DDP, is not planned",
     "use --compile-unit block, as TorchTitan does",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.layout.shard != Sharding::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--compile-unit model --shard " + shard_option(c);
     }},
    {"--compile-unit model, run by the trainer", "it compiles blocks", "use --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--kernels compiled, experts that are sampled, have biases, all run, are chosen from several "
     "groups or by logits alone, or routers in fp32, latent attention, other fused projections, "
     "attention sinks, masks of every "
     "block, images",
     "what torch.compile makes of them is not planned yet", "use --kernels eager or fused",
     [](const ModelSpec& m, const StepConfig& c) { return compiled(c) && not_traced(m); },
     [](const ModelSpec& m, const StepConfig&) {
       return "--kernels compiled for " + m.family +
              (m.tower ? " beside an encoder of images" : std::string());
     }},
    {"--compile-unit model, blocks of kinds that are not planned so",
     "of experts, LayerNorms with biases, branches side by side, neighbours rotated together, "
     "heads "
     "fused one by one, tables of positions and plain MLPs but squared ReLU's the kernels in a "
     "graph of the model are not planned yet",
     "use --compile-unit block",
     [](const ModelSpec& m, const StepConfig& c) { return whole(c) && not_traced_whole(m); },
     [](const ModelSpec& m, const StepConfig&) { return "--compile-unit model for " + m.family; }},
    {"--kernels compiled, blocks other than Llama's kind, dropout, --autocast or --shard ddp, run "
     "by "
     "the trainer",
     "its interpreter has no LayerNorm, other activations, rotated neighbours or random numbers, "
     "and casts and buckets of DDP were not run by it",
     "use --kernels fused or eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && c.runtime.kind == Runtime::ac_trainer &&
              (of_other_kind(m) || m.residual_dropout > 0.0 || c.precision.autocast ||
               c.layout.shard == Sharding::ddp);
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--kernels compiled for " + m.family + ", run by the trainer";
     }},
    {"--kernels compiled, attention that is not one kernel, --ac budget:SIZE, --compile-unit "
     "model, --gpu cpu, the trainer, or scores in another dtype or with distances",
     "what is made of its scores there is not planned",
     "use --ac memory-budget:F, --compile-unit block, --attn auto, flash or cudnn where the model "
     "has it, or --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && of_many_kernels(m, c) && !scores_traced(m, c);
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--kernels compiled with eager attention of " + m.family;
     }},
    {"--kernels compiled, attention that is not one kernel, a --seq above 1024 that is no multiple "
     "of 64",
     "Inductor pads the rows of its scores (ir.py: _pad_strides), which is not planned",
     "give a --seq that is a multiple of 64, or use --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       constexpr std::int64_t least_padded = 1024, aligned = 64;
       return compiled(c) && of_many_kernels(m, c) && c.run.seq > least_padded &&
              c.run.seq % aligned != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled with eager attention, --seq " + std::to_string(c.run.seq);
     }},
    {"--kernels compiled --attn flash of soft-capped scores, --batch 1, --shard zero3, --ac "
     "memory-budget:F or budget:SIZE",
     "of one row each block looks in its positions for documents, where Dynamo breaks the graph; "
     "that, DeepSpeed's hooks and budgets around flash-attn's own op are not planned yet",
     "use --batch 2 or more, --shard zero2 or fsdp2, --ac none or full, or --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && model::caps_in_flash(m, c) && !breaks_at_attention(m, c) &&
              (c.run.batch == 1 || c.layout.zero3() || by_budget(c));
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--kernels compiled --attn flash for " + m.family;
     }},
    {"--kernels compiled --compute-dtype fp32 on a GPU",
     "neither flash nor cuDNN's attention takes it, and what then runs is not planned compiled yet",
     "use --kernels eager, or bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.precision.compute_dtype == DType::f32 && c.device.gpu != "cpu";
     }},
    {"--compile-unit model, a sliding window within --seq",
     "what a graph of the model makes of its windows' masks is not planned yet",
     "use --compile-unit block, or give a --seq below the window",
     [](const ModelSpec& m, const StepConfig& c) { return whole(c) && masked_window(m, c) > 0; },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--compile-unit model, a sliding window of " + std::to_string(masked_window(m, c)) +
              " tokens, --seq " + std::to_string(c.run.seq);
     }},
    {"--kernels compiled --gpu cpu, a sliding window within --seq",
     "what a CPU runs of a block with a mask is not planned compiled",
     "use --kernels eager, or give a --seq below the window",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && c.device.gpu == "cpu" && masked_window(m, c) > 0;
     }},
    {"--kernels compiled --attn flash, a sliding window within a --seq that is no multiple of 8",
     "the memory-efficient kernel, to which flash gives way with a mask, wants rows of 16 bytes; "
     "how the mask is padded within a block's graph is not planned yet",
     "give a --seq that is a multiple of 8, or --attn cudnn (what an H100 runs)",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && masked_window(m, c) > 0 && c.run.attention == Attention::flash &&
              !model::caps_in_flash(m, c) && c.run.seq % 8 != 0;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--kernels compiled, a sliding window of " + std::to_string(masked_window(m, c)) +
              " tokens, --seq " + std::to_string(c.run.seq);
     }},
    {"--kernels compiled --dropout P",
     "what torch.compile makes of attention with dropout is not planned",
     "set attention_dropout to 0, or use --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) { return compiled(c) && drops_scores(m, c); },
     [](const ModelSpec&, const StepConfig&) {
       return std::string("--kernels compiled with dropout of attention");
     }},
    {"--kernels compiled, residual dropout and checkpoints or --compile-unit model",
     "how random numbers are kept for a recomputation is not planned yet",
     "use --ac none or memory-budget:F, or --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       const AcMode ac = c.memory.ac;
       return compiled(c) && m.residual_dropout > 0.0 &&
              (whole(c) || (ac != AcMode::none && ac != AcMode::memory_budget));
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--kernels compiled with checkpoints around the dropout of " + m.family;
     }},
    {"--kernels compiled, --ac other than none, full, every:K, selective, memory-budget:F and "
     "budget:SIZE",
     "a checkpoint around other than one block is not planned compiled yet",
     "use one of those, with --ac-scope block",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool of_submodules = c.memory.ac == AcMode::full && breaks_at_attention(m, c);
       return compiled(c) &&
              (!keeps_blocks_whole(c) || (c.memory.scope != AcScope::block && !of_submodules));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled --ac " + ac_option(c) +
              (c.memory.scope == AcScope::block ? "" : " --ac-scope submodule");
     }},
    {"--ac memory-budget:F, --kernels other than compiled",
     "it is torch.compile's partitioner that takes it",
     "add --kernels compiled, or give bytes: --ac budget:SIZE",
     [](const ModelSpec&, const StepConfig& c) {
       return !compiled(c) && c.memory.ac == AcMode::memory_budget;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--ac " + ac_option(c) + " --kernels " + to_option(c.memory.kernels);
     }},
    {"--kernels compiled --ac memory-budget:F or budget:SIZE, --attn auto",
     "which attention kernel runs decides what PyTorch recomputes: flash is among its "
     "compute-intensive ops, cuDNN's is not",
     "give --attn cudnn (what an H100 runs) or flash",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && by_budget(c) && c.run.attention == Attention::automatic;
     },
     [](const ModelSpec&, const StepConfig& c) { return "--ac " + ac_option(c) + " --attn auto"; }},
    {"--kernels compiled --quantize nf4 or nf4-double, FSDP",
     "Dynamo finds no full graph: FSDP's weights are parameters without a quantization state, for "
     "which bitsandbytes makes one anew in each forward (v0.50, nn/modules.py: "
     "fix_4bit_weight_quant_state_from_module)",
     "use --shard none, or --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.adapters.four_bit() && c.layout.fsdp();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --quantize ") + to_option(c.adapters.quantize) +
              " --shard " + shard_option(c);
     }},
    {"--kernels compiled --quantize nf4 or nf4-double --shard zero3",
     "which pieces DeepSpeed's hooks leave of bitsandbytes' layers is not planned yet",
     "use --shard zero2, or --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.adapters.four_bit() && c.layout.zero3();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --quantize ") + to_option(c.adapters.quantize) +
              " --shard zero3";
     }},
    {"--kernels compiled --quantize nf4 or nf4-double --fp8 RECIPE",
     "what Inductor fuses of adapters in FP8 beside 4-bit products is not planned yet",
     "use --kernels eager, or leave --fp8 out",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.adapters.four_bit() && c.precision.float8();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --quantize ") + to_option(c.adapters.quantize) +
              " --fp8 " + to_option(c.precision.fp8);
     }},
    {"--kernels compiled --quantize int8",
     "Dynamo finds no full graph: it breaks one at every MatMul8bitLt, whose function reads its "
     "weight's gradient (bitsandbytes v0.50, autograd/_functions.py)",
     "use --kernels eager, or --quantize none",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.adapters.quantize == Quantization::int8;
     }},
    {"--kernels compiled --lora, run by the trainer", "its interpreter has no adapters",
     "use --kernels eager or fused",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--compile-unit model --autocast", "its casts in a graph of the model are not planned yet",
     "use --autocast none, or --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) { return whole(c) && c.precision.autocast; }},
    {"--kernels compiled --tp T, T above 8",
     "Inductor joins more than eight parts of a sequence by kernels of their own, which is not "
     "planned (max_pointwise_cat_inputs)",
     "use a smaller T, or --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.layout.tp > most_parts_joined;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled --tp " + std::to_string(c.layout.tp);
     }},
    {"--kernels compiled --tp or --pp --compile-unit model",
     "a graph of the whole model is not split", "use --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) { return compiled(c) && whole(c) && in_parts(c); }},
    {"--kernels compiled --tp or --pp, run by the trainer",
     "its ranks run eager and fused blocks alone", "plan it instead, or use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && in_parts(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--kernels compiled --cp-method alltoall or ulysses",
     "what Ulysses exchanges, and keys that go from rank to rank within a graph, are not planned "
     "yet",
     "use --cp-method allgather or --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && c.layout.cp > 1 && !breaks_at_attention(m, c) &&
              c.layout.cp_method != CpMethod::all_gather;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --cp-method ") +
              (c.layout.ulysses() ? "ulysses" : "alltoall");
     }},
    {"--kernels compiled --ep N", "compiled blocks around an all-to-all are not planned yet",
     "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) { return compiled(c) && c.layout.ep > 1; }},
    {"--kernels compiled --adapter METHOD",
     "what Inductor makes of other adapters than LoRA's is not planned yet", "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.adapters.of_another_method();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled " + given_adapters(c);
     }},
    {"--kernels compiled --dora --quantize nf4 or nf4-double",
     "Dynamo may not trace what PEFT's layer asks of bitsandbytes' weights, their class (v0.21, "
     "utils/integrations.py: dequantize_module_weight)",
     "use --kernels eager, or --quantize none",
     [](const ModelSpec&, const StepConfig& c) { return with_dora(c) && c.adapters.four_bit(); },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --dora --quantize ") + to_option(c.adapters.quantize);
     }},
    {"--kernels compiled --dora, checkpoints within the compiled blocks",
     "Dynamo may not trace PEFT's layer in a checkpoint: it clears a dictionary (v0.21, "
     "tuners/lora/dora.py: _cache_clear)",
     "use --ac none or memory-budget:F, --kernels eager, or --framework torchtune, whose layer has "
     "none",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_dora(c) && c.memory.ac != AcMode::none && c.memory.ac != AcMode::memory_budget &&
              !checkpoints_compiled_blocks(m, c);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled --dora --ac " + ac_option(c);
     }},
    {"--kernels compiled --dora, --compile-unit model, --fp8 RECIPE, --shard zero3, or "
     "AutoModel's --packing or --cp",
     "what Inductor makes of its norms there is not planned yet", "use --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_dora(c) &&
              (whole(c) || c.precision.float8() || graph_breaks(m, c) != GraphBreaks::none);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--kernels compiled --dora ") +
              (whole(c)               ? "--compile-unit model"
               : c.precision.float8() ? std::string("--fp8 ") + to_option(c.precision.fp8)
               : c.layout.zero3()     ? "--shard zero3"
               : c.layout.cp > 1      ? "--cp " + std::to_string(c.layout.cp)
                                      : "--packing " + std::to_string(c.run.packing));
     }},
    {"--framework automodel --kernels compiled with --packing or --cp, --tp, --ac other than none, "
     "selective and full --ac-scope submodule",
     "AutoModel's checkpoints are around attention and MLPs, or a policy's around layers; what its "
     "attention leaves of the graphs of layers in parts is not planned",
     "use --kernels eager, or --ac none",
     [](const ModelSpec& m, const StepConfig& c) {
       const AcMode ac = c.memory.ac;
       const bool known = ac == AcMode::none || ac == AcMode::selective ||
                          (ac == AcMode::full && c.memory.scope == AcScope::submodule);
       return breaks_at_attention(m, c) && (c.layout.tp > 1 || !known);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework automodel --kernels compiled --ac " + ac_option(c);
     }},
    {"--kernels compiled --shard zero3, experts, --ac memory-budget:F or budget:SIZE",
     "which pieces DeepSpeed's hooks leave of experts, and where budgets cut them, is not planned",
     "use --shard zero2 or fsdp2, or --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return compiled(c) && c.layout.zero3() && (m.moe || by_budget(c));
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--kernels compiled --shard zero3" +
              (m.moe ? " for " + m.family : " --ac " + ac_option(c));
     }},
    {"--kernels compiled --shard ddp, --ac other than full",
     "Dynamo splits a block's graph where DDP's buckets end (torch._dynamo.config.optimize_ddp), "
     "which is not planned; a graph with a checkpoint it leaves whole",
     "add --ac full, or use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.layout.shard == Sharding::ddp && c.memory.ac != AcMode::full;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--kernels compiled --shard ddp --ac " + ac_option(c);
     }},
    {"--kernels compiled --cuda-graph step",
     "torch.compile's mode reduce-overhead records a graph's forward and its backward, not the "
     "optimizer",
     "use --cuda-graph segments",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.runtime.cuda_graph == CudaGraph::step;
     }},
    {"--kernels compiled --cuda-graph segments --grad-accum above 1",
     "the first micro-batch's gradients lie in memory of the graphs, which the second replays: not "
     "planned",
     "use --grad-accum 1, or leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.runtime.cuda_graph == CudaGraph::segments && c.run.grad_accum > 1;
     }},
    {"--kernels compiled --compile-unit block --cuda-graph segments",
     "what lies between the graphs of many blocks is not planned yet",
     "use --compile-unit model, or leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && !whole(c) && c.runtime.cuda_graph == CudaGraph::segments;
     }},
    {"--kernels compiled, run by the trainer on a GPU",
     "its generated kernels are interpreted on the CPU alone",
     "use --kernels fused, or measure on the CPU",
     [](const ModelSpec&, const StepConfig& c) {
       return compiled(c) && c.runtime.kind == Runtime::ac_trainer && c.device.gpu != "cpu";
     }},
};

}  // namespace

extern const ExclusionGroup compile_exclusions;
const ExclusionGroup compile_exclusions{"--kernels compiled", of_compiled};

}  // namespace ac_advisor::passes
