// What Megatron-core's step is not planned with.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "ac_advisor/ir/shape.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/pipeline.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

std::string impl(const StepConfig& c) {
  return std::string("--transformer-impl ") + to_option(c.run.transformer_impl);
}
std::string with_model(const ModelSpec& m, const StepConfig& c) {
  return impl(c) + " for " + m.family;
}
template <auto text>
std::string with(const ModelSpec&, const StepConfig& c) {
  return impl(c) + " " + text(c);
}
std::string loss_text(const StepConfig& c) { return "--loss " + loss_option(c); }
std::string ac_text(const StepConfig& c) { return "--ac " + ac_option(c); }
std::string shard_text(const StepConfig& c) { return "--shard " + shard_option(c); }
std::string kernels_text(const StepConfig& c) {
  return std::string("--kernels ") + to_option(c.memory.kernels);
}
std::string optimizer_text(const StepConfig& c) {
  return std::string("--optimizer ") + to_option(c.optimizer.kind);
}
std::string attn_text(const StepConfig& c) {
  return std::string("--attn ") + to_option(c.run.attention);
}
std::string tp_text(const StepConfig& c) { return "--tp " + std::to_string(c.layout.tp); }
std::string pp_text(const StepConfig& c) {
  return "--pp " + std::to_string(c.layout.pp) + " --pp-schedule " + pp_schedule_option(c) +
         " --grad-accum " + std::to_string(c.run.grad_accum);
}
std::string seq_text(const StepConfig& c) { return "--seq " + std::to_string(c.run.seq); }
std::string world_text(const StepConfig& c) { return "--world " + std::to_string(c.layout.world); }
template <auto text>
std::string cp_with(const StepConfig& c) {
  return "--cp " + std::to_string(c.layout.cp) + " " + text(c);
}
std::string instances_text(const StepConfig& c) {
  return "--optimizer-instances " + std::to_string(c.layout.optimizer_instances) + " " +
         world_text(c);
}

std::string ep_text(const StepConfig& c) {
  return "--ep " + std::to_string(c.layout.ep) +
         (c.layout.etp > 0 ? " --etp " + std::to_string(c.layout.etp) : "");
}
template <auto text>
std::string ep_with(const StepConfig& c) {
  return ep_text(c) + " " + text(c);
}
std::string capacity_text(const StepConfig&) { return "--capacity-factor"; }
std::string dtype_text(const StepConfig& c) {
  return std::string("--param-dtype ") + to_option(c.precision.param_dtype);
}
std::string fp8_text(const StepConfig& c) {
  return c.precision.fp8_all_gather ? "--fp8-all-gather"
                                    : std::string("--fp8 ") + to_option(c.precision.fp8);
}
/// Both options of a pair.
template <auto text>
std::string fp8_with(const StepConfig& c) {
  return fp8_text(c) + " " + text(c);
}
std::string tokens_text(const StepConfig& c) {
  return "--batch " + std::to_string(c.run.batch) + " " + seq_text(c);
}
std::string fp8_of_sizes(const ModelSpec& m, const StepConfig& c) {
  const std::string experts =
      m.moe ? ", experts of " + std::to_string(m.moe->intermediate) : std::string();
  return with<fp8_with<tokens_text>>(m, c) + " of hidden_size " + std::to_string(m.hidden) +
         ", intermediate_size " + std::to_string(m.intermediate) + experts + " and " +
         std::to_string(m.heads) + " and " + std::to_string(m.kv_heads) + " heads of " +
         std::to_string(m.head_dim) +
         (c.layout.tp > 1 ? ", in " + std::to_string(c.layout.tp) + " parts" : "");
}
/// Sizes and tokens of each rank; experts' rows are filled up.
bool multiplies_in_fp8(const ModelSpec& m, const StepConfig& c) {
  constexpr std::int64_t multiple = 16, multiple_of_part = 8;
  const std::int64_t tp = c.layout.tp, parts = c.layout.sequence_parallel ? tp : 1,
                     tokens = c.run.batch * c.local_seq();
  std::vector<std::int64_t> sizes{m.hidden, m.heads * m.head_dim / tp,
                                  m.kv_heads * m.head_dim / tp};
  const bool dense = !m.moe || std::count(m.sparse_block.begin(), m.sparse_block.end(), false) > 0;
  if (dense) sizes.push_back(m.intermediate / tp);
  if (m.moe) sizes.push_back(m.moe->intermediate / c.layout.expert_tp());
  if (m.moe) sizes.push_back(m.moe->shared_intermediate / tp);
  return tokens % std::lcm(multiple, multiple_of_part * parts) == 0 &&
         std::all_of(sizes.begin(), sizes.end(), [](std::int64_t n) { return n % multiple == 0; });
}

std::string no_sp_text(const StepConfig& c) { return tp_text(c) + " --no-sp"; }

bool piped(const StepConfig& c) { return c.layout.pp > 1; }

/// A GPT of Megatron-core: norms before attention and MLP, both added to what they read.
bool is_gpt(const ModelSpec& m) {
  if (m.graph != nullptr || (m.moe && !m.moe->megatron) || m.tower || m.kv_sharing || m.delta)
    return false;
  const bool norms = (m.norm == model::Norm::rms || m.norms_have_bias()) && !m.unit_offset_norm &&
                     !m.sandwich_norms && !m.post_norms_only && !m.qk_norm_whole &&
                     !m.embedding_norm && !m.side_by_side;
  const bool gelu = m.activation == model::Activation::gelu_new ||
                    m.activation == model::Activation::gelu_tanh ||
                    m.activation == model::Activation::gelu;
  const bool squared = m.activation == model::Activation::relu2 && !m.mlp_bias;
  const bool mlp = m.plain_mlp ? gelu || squared : m.activation == model::Activation::silu;
  const bool plain = !m.attention_softcap && !m.final_softcap && !m.residual_multiplier &&
                     !m.embedding_multiplier && !m.logits_divisor && !m.logits_multiplier &&
                     !m.hidden_divisor && !m.scaled_embedding && !m.attention_sinks && !m.alibi &&
                     !m.head_bias && !m.normalized_head && !m.masked_positions &&
                     !m.position_scaled_queries && !m.dropout_in_block &&
                     !model::class_facts(m.family).norms_after_rotation &&
                     m.unrotated_block.empty() && m.position_grids == model::PositionGrids::one;
  return norms && mlp && plain;
}

bool has_window(const ModelSpec& m, const StepConfig& c) { return m.window_within(c.run.seq - 1); }

/// --pp-layers fits the model, 0 at the ends at most, or it goes round by itself.
bool stages_fit(const ModelSpec& m, const StepConfig& c) {
  const auto& layers = c.layout.pp_layers;
  if (layers.empty()) return m.layers % (c.layout.pp * c.layout.pp_chunks) == 0;
  for (std::size_t i = 1; i + 1 < layers.size(); ++i)
    if (layers[i] == 0) return false;
  return static_cast<std::int64_t>(layers.size()) == c.layout.pp * c.layout.pp_chunks &&
         std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == m.layers;
}

bool divides_stages(const ModelSpec& m, const StepConfig& c, std::int64_t blocks) {
  const std::vector<StageBlocks> stages = pipeline_stages(m, c);
  return std::all_of(stages.begin(), stages.end(),
                     [&](const StageBlocks& s) { return s.blocks() % blocks == 0; });
}

constexpr Exclusion all_exclusions[] = {
    {"--transformer-impl, a model that is no GPT of its",
     "its layers are planned with LayerNorm or RMSNorm before attention and MLP, of GELU, squared "
     "ReLU or gated SiLU, with learned or rotary positions; experts as Megatron-LM's arguments "
     "or Megatron-Bridge (mixtral, qwen3_moe, deepseek_v3) have them",
     "use --transformer-impl hf", [](const ModelSpec& m, const StepConfig&) { return !is_gpt(m); },
     with_model},
    {"--transformer-impl local, latent attention",
     "Megatron-core's own layers are not planned with it, whose norms stand alone there",
     "use --transformer-impl transformer_engine",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.latent && c.run.transformer_impl == TransformerImpl::local;
     },
     with_model},
    {"--transformer-impl --attn flash, latent attention",
     "FlashAttention 2 has no heads whose values are narrower than their keys (utils.py, "
     "get_attention_backend), and 3 is not planned",
     "use --attn cudnn or eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.latent && c.run.attention == Attention::flash;
     },
     with<attn_text>},
    {"--transformer-impl --fp8, latent attention", "not planned yet", "use bf16",
     [](const ModelSpec& m, const StepConfig& c) { return m.latent && c.precision.float8(); },
     with<fp8_text>},
    {"--transformer-impl local, a sliding window within --seq",
     "the masks of Megatron-core's own attention are not planned yet",
     "use --transformer-impl transformer_engine, or a --seq below the window",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_window(m, c) && c.run.transformer_impl == TransformerImpl::local;
     },
     with_model},
    {"--transformer-impl --cp N, a sliding window within --seq",
     "Transformer Engine's ring has no windows (context_parallel.py)",
     "use --cp 1, or a --seq below the window",
     [](const ModelSpec& m, const StepConfig& c) { return has_window(m, c) && c.layout.cp > 1; },
     with<cp_with<seq_text>>},
    {"--transformer-impl, a sliding window within --seq, --dropout with cuDNN's attention",
     "cuDNN's kernel has windows without dropout alone (utils.py, get_attention_backend)",
     "use --attn flash or eager, or leave --dropout out",
     [](const ModelSpec& m, const StepConfig& c) {
       const Attention by = c.run.attention;
       return has_window(m, c) && by != Attention::flash && by != Attention::eager &&
              (c.run.dropout > 0.0 || m.attention_dropout > 0.0);
     },
     with_model},
    {"--transformer-impl --seq N, a model with a table of positions", "its table has no more rows",
     "give a --seq of at most its positions",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.position_table > 0 && c.run.seq > m.max_positions;
     },
     with<seq_text>},
    {"--transformer-impl --batch B --seq S", "more than 2^31 tokens on one rank",
     "use a smaller --batch or --seq",
     [](const ModelSpec&, const StepConfig& c) {
       return ir::checked_mul(c.run.batch, c.run.seq) > std::int64_t{1} << 31;
     },
     with<seq_text>},
    {"--transformer-impl, a model of more than 4096 blocks", "at most 4096",
     "give a model of fewer blocks",
     [](const ModelSpec& m, const StepConfig&) { return m.layers > 4096; }, with_model},
    {"--transformer-impl, --ac other than none, full, grouped:K, first:N, attention or "
     "modules:PARTS, or --ac-scope submodule",
     "Megatron-core recomputes whole layers (uniform or block), or parts of each",
     "use --ac full, grouped:K, first:N, attention or modules:PARTS",
     [](const ModelSpec&, const StepConfig& c) {
       const AcMode ac = c.memory.ac;
       return (ac != AcMode::none && ac != AcMode::full && ac != AcMode::grouped &&
               ac != AcMode::first && ac != AcMode::attention && ac != AcMode::modules) ||
              (ac == AcMode::full && c.memory.scope != AcScope::block);
     },
     with<ac_text>},
    {"--transformer-impl --ac modules:moe_act, experts that are not grouped",
     "Megatron-core recomputes the activation of moe_grouped_gemm alone (transformer_config.py)",
     "leave moe_act out, or give moe_grouped_gemm",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool grouped = m.moe && m.moe->megatron && m.moe->megatron->grouped;
       return c.memory.recomputes(LayerPart::moe_act) && !grouped;
     },
     with<ac_text>},
    {"--transformer-impl --ac modules:mla_up_proj, a model without latent attention",
     "Megatron-core has it with multi_latent_attention alone (transformer_config.py)",
     "leave mla_up_proj out",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.memory.recomputes(LayerPart::mla_up_proj) && !m.latent;
     },
     with<ac_text>},
    {"--transformer-impl --ac modules:mlp, an MLP with biases",
     "the bias that it returns becomes its checkpoint's output, whose backward runs itself again "
     "without end (mlp.py, tensor_parallel/random.py)",
     "leave mlp out, or use --ac full",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.memory.recomputes(LayerPart::mlp) && m.mlp_bias;
     },
     with<ac_text>},
    {"--transformer-impl --fp8 delayed --ac modules:layernorm or moe_act",
     "delayed scaling saves no input in bf16, which is what their outputs' readers would have to "
     "(transformer_config.py)",
     "use --fp8 tensorwise, or leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8 == Fp8Recipe::delayed && (c.memory.recomputes(LayerPart::layernorm) ||
                                                        c.memory.recomputes(LayerPart::moe_act));
     },
     with<fp8_with<ac_text>>},
    {"--transformer-impl --ac modules:moe with moe_act or shared_experts",
     "a checkpoint within another is not planned yet", "leave out what is in the other",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.recomputes(LayerPart::moe) &&
              (c.memory.recomputes(LayerPart::moe_act) ||
               c.memory.recomputes(LayerPart::shared_experts));
     },
     with<ac_text>},
    {"--transformer-impl, a loss other than ce or ce-compiled",
     "Megatron-core's cross-entropy is the one over parts of the vocabulary",
     "use --loss ce, or ce-compiled: its native fusion",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss != LossKind::ce && c.memory.loss != LossKind::ce_compiled;
     },
     with<loss_text>},
    {"--transformer-impl, --kernels other than fused",
     "Megatron-core's fusions are planned as they are by default", "use --kernels fused",
     [](const ModelSpec&, const StepConfig& c) { return c.memory.kernels != Kernels::fused; },
     with<kernels_text>},
    {"--transformer-impl, --shard other than none, ddp or zero1",
     "its gradients are averaged over all data-parallel ranks; zero1 is its distributed optimizer",
     "use --shard ddp or zero1",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.shard != Sharding::none && c.layout.shard != Sharding::ddp &&
              c.layout.shard != Sharding::zero1;
     },
     with<shard_text>},
    {"--transformer-impl --reduce-dtype bf16", "main gradients are planned in fp32",
     "use --reduce-dtype fp32",
     [](const ModelSpec&, const StepConfig& c) {
       const bool own =
           c.precision.compute_dtype == DType::f16 && c.precision.reduce_dtype == DType::f16;
       return c.layout.shard != Sharding::none && c.precision.reduce_dtype != DType::f32 && !own;
     }},
    {"--transformer-impl --no-grad-scaler in fp16, --grad-scaler in bf16",
     "Megatron-core scales the loss of --fp16, and of nothing else", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.optimizer.grad_scaler != (c.precision.compute_dtype == DType::f16);
     }},
    {"--transformer-impl, an optimizer other than adamw or adamw-foreach",
     "its Adam is Transformer Engine's or Apex's, or PyTorch's foreach one without them",
     "use --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return c.optimizer.kind != Optimizer::adamw && c.optimizer.kind != Optimizer::adamw_foreach;
     },
     with<optimizer_text>},
    {"--transformer-impl local, --attn other than auto or eager",
     "Megatron-core's own attention makes all scores", "use --attn eager",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.transformer_impl == TransformerImpl::local &&
              c.run.attention != Attention::automatic && c.run.attention != Attention::eager;
     },
     with<attn_text>},
    {"--transformer-impl transformer_engine, --attn efficient, math or flash1",
     "Transformer Engine attends by FlashAttention, cuDNN or unfused products",
     "use --attn flash, cudnn or eager",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.attention == Attention::efficient || c.run.attention == Attention::math ||
              c.run.attention == Attention::flash1;
     },
     with<attn_text>},
    {"--transformer-impl, --param-dtype or --compute-dtype fp32, --autocast",
     "masters are in fp32, all else in bf16 or fp16", "use --param-dtype bf16 or fp16",
     [](const ModelSpec&, const StepConfig& c) {
       return !is_half(c.precision.param_dtype) ||
              c.precision.compute_dtype != c.precision.param_dtype || c.precision.autocast;
     }},
    {"--transformer-impl --hold-output or --output-dtype fp32",
     "the loss is computed inside the model, which returns it alone", "leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.hold_output || c.memory.wide_output;
     }},
    {"--transformer-impl --packing DOCS",
     "Megatron-core's packed sequences (PackedSeqParams) are not planned yet",
     "use --transformer-impl hf",
     [](const ModelSpec&, const StepConfig& c) { return c.run.packing != 0; }},
    {"--transformer-impl --position-ids", "Megatron-core's batches carry positions in any case",
     "leave it out", [](const ModelSpec&, const StepConfig& c) { return c.run.position_ids; }},
    {"--transformer-impl --images N", "Megatron-core's models with images are not planned",
     "use --transformer-impl hf",
     [](const ModelSpec&, const StepConfig& c) { return c.run.images > 0; }},
    {"--transformer-impl --lora or --quantize", "adapters are not planned with it",
     "use --transformer-impl hf",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.used() || c.adapters.quantize != Quantization::none;
     }},
    {"--transformer-impl --ema, --optimizer-in-backward or --no-sync",
     "its optimizer runs after all gradients are there, and gradients are reduced after the last "
     "micro-batch anyway",
     "leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.optimizer.ema || c.optimizer.in_backward || c.layout.no_sync;
     }},
    {"--transformer-impl --master-weights", "its optimizer has fp32 masters in any case",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return c.optimizer.master_weights; }},
    {"--transformer-impl --grad-compression", "its own data parallelism has no hooks",
     "use --grad-compression none",
     [](const ModelSpec&, const StepConfig& c) { return c.compression.used(); }},
    {"--transformer-impl --cuda-graph", "its captures are not planned", "use --cuda-graph off",
     [](const ModelSpec&, const StepConfig& c) { return c.runtime.cuda_graph != CudaGraph::off; }},
    {"--transformer-impl local --fp8", "Megatron-core's own layers have no FP8",
     "use --transformer-impl transformer_engine, or leave --fp8 out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.float8() && c.run.transformer_impl == TransformerImpl::local;
     },
     with<fp8_text>},
    {"--transformer-impl --fp8 rowwise or mx, or --fp8-all-gather",
     "Transformer Engine's delayed and current scaling are planned, of its recipes",
     "use --fp8 delayed or tensorwise without --fp8-all-gather",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather || c.precision.fp8 == Fp8Recipe::rowwise ||
              c.precision.fp8 == Fp8Recipe::mx;
     },
     with<fp8_text>},
    {"--transformer-impl --fp8, sizes or tokens that are no multiples of 16",
     "Transformer Engine's products in FP8 take no other (cublaslt_gemm.cu, "
     "CanonicalizeGemmInput), nor parts of sequences of no multiple of 8 tokens (utils.py, "
     "assert_dim_for_fp8_exec)",
     "give such sizes for each rank, or leave --fp8 out",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.precision.float8() && !multiplies_in_fp8(m, c);
     },
     fp8_of_sizes},
    {"--transformer-impl --offload", "its cpu_offloading is not planned", "leave --offload out",
     [](const ModelSpec&, const StepConfig& c) { return c.memory.offload != Offload::none; }},
    {"--transformer-impl, ac-trainer", "the trainer has transformers' layers",
     "plan it, or measure with --transformer-impl hf",
     [](const ModelSpec&, const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }},
    {"--transformer-impl --tp T --pp N --world W", "T times N must divide the world",
     "give a world that is a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.world % (c.layout.tp * c.layout.pp) != 0;
     },
     with<tp_text>},
    {"--transformer-impl --tp T, heads or MLP that T does not divide",
     "each rank has as many as every other", "give a T that divides them",
     [](const ModelSpec& m, const StepConfig& c) {
       return std::gcd(std::gcd(m.heads, m.kv_heads), m.intermediate) % c.layout.tp != 0;
     },
     with<tp_text>},
    {"--transformer-impl --tp T --seq S, S no multiple of T",
     "with sequence parallelism each rank has a part of every sequence",
     "give a --seq that is a multiple of it, or --no-sp",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.sequence_parallel && c.run.seq % c.layout.tp != 0;
     },
     with<seq_text>},
    {"--transformer-impl --cp N --world W", "N times the ranks of layers and stages must divide W",
     "give a world that is a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.replica_ranks() % c.layout.cp != 0;
     },
     with<cp_with<world_text>>},
    {"--transformer-impl --cp N, --attn other than flash, or local layers",
     "its ring is planned as Transformer Engine runs it by FlashAttention",
     "use --transformer-impl transformer_engine --attn flash",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.cp > 1 && (c.run.attention != Attention::flash ||
                                  c.run.transformer_impl == TransformerImpl::local);
     },
     with<cp_with<attn_text>>},
    {"--transformer-impl --cp N --seq S, S no multiple of 2 N",
     "each rank has two chunks of every sequence, and with sequence parallelism T parts of them",
     "give a --seq that is a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       const std::int64_t parts = c.layout.sequence_parallel ? c.layout.tp : 1;
       return c.layout.cp > 1 && (c.run.seq % (2 * c.layout.cp) != 0 || c.local_seq() % parts != 0);
     },
     with<cp_with<seq_text>>},
    {"--transformer-impl --optimizer-instances N that does not divide the ranks",
     "an instance of the optimizer has as many ranks as every other",
     "give an N that divides the ranks whose gradients are averaged, world / (tp pp)",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.replica_ranks() % c.layout.optimizer_instances != 0;
     },
     with<instances_text>},
    {"--ep N or --etp T, a model without experts", "there is nothing to share", "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return !m.moe && (c.layout.ep > 1 || c.layout.etp > 0);
     },
     with<ep_text>},
    {"--ep N --etp T --world W", "N times T times the ranks of the pipeline must divide W",
     "give a world that is a multiple of it",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && c.layout.world % (c.layout.pp * c.layout.expert_ranks()) != 0;
     },
     with<ep_with<world_text>>},
    {"--ep N that does not divide the experts", "each rank has as many as every other",
     "give an N that divides them",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && m.moe->experts % c.layout.ep != 0;
     },
     with<ep_text>},
    {"--etp T or --tp T that does not divide the experts' or the shared expert's width",
     "each rank has as much as every other", "give a T that divides it",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && (m.moe->intermediate % c.layout.expert_tp() != 0 ||
                        m.moe->shared_intermediate % c.layout.tp != 0);
     },
     with<ep_with<tp_text>>},
    {"--transformer-impl --tp T --no-sp, a mixture of experts",
     "Megatron-core trains experts with sequence parallelism alone", "leave out --no-sp",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && c.layout.tp > 1 && !c.layout.sequence_parallel;
     },
     with<no_sp_text>},
    {"--transformer-impl local, moe_grouped_gemm or moe_permute_fusion",
     "its own grouped products are CUTLASS's, which are not planned, and fused permutations are "
     "Transformer Engine's; Megatron-Bridge asks for both",
     "use --transformer-impl transformer_engine",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.run.transformer_impl == TransformerImpl::local && m.moe && m.moe->megatron &&
              (m.moe->megatron->grouped || m.moe->megatron->fused_permute);
     },
     with_model},
    {"--transformer-impl, a mixture of experts in fp16", "not planned yet", "use bf16",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && c.precision.compute_dtype == DType::f16;
     },
     with<dtype_text>},
    {"--transformer-impl --capacity-factor F", "its experts are planned with balanced loads",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) { return m.moe && c.run.capacity_factor != 1.0; },
     with<capacity_text>},
    {"--transformer-impl --batch B --seq S, tokens that do not spread evenly over the experts",
     "each expert has as many as every other", "give a --batch or --seq that does",
     [](const ModelSpec& m, const StepConfig& c) {
       if (!m.moe) return false;
       const std::int64_t ranks = c.layout.expert_ranks(), parts = c.layout.tp;
       return (c.run.batch * c.local_seq() / parts * ranks * m.moe->top_k) % m.moe->experts != 0;
     },
     with<seq_text>},
    {"--optimizer-instances N that does not divide the ranks of an expert",
     "an instance of the optimizer has as many ranks as every other",
     "give an N that divides world / (pp ep etp)",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && c.layout.ep > 1 &&
              c.layout.expert_replicas() % c.layout.optimizer_instances != 0;
     },
     with<ep_with<instances_text>>},
    {"--transformer-impl --no-loss-parallel",
     "Megatron-core's loss is always on parts of the vocabulary", "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return !c.layout.loss_parallel; }},
    {"--transformer-impl --pp N, blocks that do not go round",
     "each stage has as many as every other, or what --pp-layers says, one number per stage",
     "give --pp-layers, or other stages",
     [](const ModelSpec& m, const StepConfig& c) { return piped(c) && !stages_fit(m, c); },
     with<pp_text>},
    {"--transformer-impl --ac grouped:K that does not divide a stage's blocks",
     "recompute_method uniform takes K layers at a time, and asks for one past the last "
     "(transformer_block.py, _checkpointed_forward)",
     "give a K that divides them",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.memory.ac == AcMode::grouped && c.memory.ac_arg > 0 &&
              !divides_stages(m, c, c.memory.ac_arg);
     },
     with<ac_text>},
    {"--transformer-impl --pp N --pp-schedule gpipe, zb1, zbv or dualpipev",
     "Megatron-core's schedules are 1F1B and interleaved 1F1B", "use 1f1b or interleaved:V",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && (c.layout.pp_schedule == PipelineSchedule::gpipe ||
                           splits_backwards(c.layout.pp_schedule));
     },
     with<pp_text>},
    {"--transformer-impl --pp N --grad-accum M, too few or uneven",
     "M micro-batches fill N stages; interleaved ones run in rounds of N",
     "give --grad-accum of N or more, of interleaved stages a multiple of N",
     [](const ModelSpec&, const StepConfig& c) {
       if (!piped(c)) return false;
       const bool rounds = c.layout.pp_schedule == PipelineSchedule::interleaved;
       return c.run.grad_accum < c.layout.pp || (rounds && c.run.grad_accum % c.layout.pp != 0);
     },
     with<pp_text>},
    {"--transformer-impl --pp-rank R, R of N or more", "a pipeline's ranks are 0 to N - 1",
     "give one of those",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.pp_rank >= c.layout.pp;
     },
     with<pp_text>},
};

}  // namespace

extern const std::span<const Exclusion> exclusions_of_megatron;
const std::span<const Exclusion> exclusions_of_megatron = all_exclusions;

}  // namespace ac_advisor::passes
