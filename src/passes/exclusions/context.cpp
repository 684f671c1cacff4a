// What is planned of --cp with PyTorch's layers, and what is not.
#include <string>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/lowering/batch_positions.hpp"
#include "passes/sharding/tensor_parallel.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool shared(const StepConfig& c) { return c.layout.cp > 1; }
bool in_a_ring(const StepConfig& c) { return shared(c) && !c.layout.ulysses(); }
bool trained(const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }
std::string cp_option(const StepConfig& c) { return "--cp " + std::to_string(c.layout.cp); }
std::string with_model(const ModelSpec& m, const StepConfig& c) {
  return cp_option(c) + " for " + m.family;
}

/// What else a block has is of each token by itself.
bool attends_in_a_ring(const ModelSpec& m) {
  const bool of_tokens = m.graph == nullptr && !m.tower && !m.latent && !m.attention_sinks &&
                         !m.delta && !m.gated_attention && !m.kv_sharing && !m.always_masked &&
                         m.attention_chunk == 0 && m.attention_dropout == 0.0;
  return !m.eager_attention_only && of_tokens && takes_rotary_positions(m);
}

constexpr Exclusion of_contexts[] = {
    {"--cp N --framework megatron or deepspeed", "their own context parallelism is not PyTorch's",
     "give --transformer-impl transformer_engine with --framework megatron, --cp-method ulysses "
     "with --framework deepspeed, or use --framework torchtitan or hf",
     [](const ModelSpec&, const StepConfig& c) {
       return (shared(c) && c.runtime.framework == "megatron") ||
              (in_a_ring(c) && c.runtime.framework == "deepspeed");
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --framework " + c.runtime.framework;
     }},
    {"--cp N --world W", "N must divide the ranks that have the same parameters",
     "give a world that is a multiple of N",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && c.layout.replica_ranks() % c.layout.cp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --world " + std::to_string(c.layout.world);
     }},
    {"--cp N --seq S, S no multiple of 2 N", "each rank has two chunks of every sequence",
     "give a --seq that is a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       return in_a_ring(c) && c.run.seq % (2 * c.layout.cp) != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --seq " + std::to_string(c.run.seq);
     }},
    {"--cp N --cp-rank R, R of N or more", "ranks of a sequence are counted from 0",
     "give an R below N",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && c.layout.cp_rank >= c.layout.cp;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --cp-rank " + std::to_string(c.layout.cp_rank);
     }},
    {"--cp N --tp T --seq S, S / N no multiple of T",
     "each rank of a layer has a part of its ring's part of every sequence",
     "give a --seq that is a multiple of N times T",
     [](const ModelSpec&, const StepConfig& c) {
       return in_a_ring(c) && c.layout.tp > 1 && c.run.seq / c.layout.cp % c.layout.tp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --tp " + std::to_string(c.layout.tp) + " --seq " +
              std::to_string(c.run.seq);
     }},
    {"--cp N, --shard other than fsdp2 and hsdp:M",
     "ranks that share a sequence have gradients of its parts: TorchTitan adds them up by FSDP2, "
     "over all ranks, and beside DeepSpeed's Ulysses its ZeRO 3 does; other ways are not planned",
     "use --shard fsdp2, or zero3 with --cp-method ulysses",
     [](const ModelSpec&, const StepConfig& c) {
       const bool by_zero = c.layout.ulysses() && c.layout.zero3();
       return shared(c) && !c.layout.gathers() && !by_zero;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --shard " + shard_option(c);
     }},
    {"--cp N --shard hsdp:M, M no multiple of N",
     "TorchTitan shards over all ranks of a sequence (distributed/parallel_dims.py)",
     "give an M that is a multiple of N",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && c.layout.shard == Sharding::hsdp &&
              c.layout.hsdp_shards % c.layout.cp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --shard " + shard_option(c);
     }},
    {"--cp N, attention other than scaled_dot_product_attention of rotated heads",
     "PyTorch's ring is scaled_dot_product_attention's alone, which transformers 5.23 refuses for "
     "scores with a softcap (5.8, which NeMo AutoModel 0.5.0 pins, leaves the cap out), and other "
     "positions of parts of a sequence are not planned",
     "use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return in_a_ring(c) && m.layers > 0 && !attends_in_a_ring(m);
     },
     with_model},
    {"--cp N --cp-method ulysses, a model whose layers are not like Llama's",
     "other attention, masks and positions of parts of a sequence are not planned",
     "use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.ulysses() && m.layers > 0 && !(llama_like(m) && takes_rotary_positions(m));
     },
     with_model},
    {"--cp N --kernels fused --framework automodel",
     "AutoModel turns Liger's kernels off beside cp_size (0.5.0, _transformers/kernel_patches.py)",
     "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return model::rings_by_automodel(c) && c.memory.kernels == Kernels::fused;
     },
     [](const ModelSpec&, const StepConfig& c) { return cp_option(c) + " --kernels fused"; }},
    {"--cp N, a sliding window within --seq, --framework other than automodel",
     "PyTorch's ring attention takes no mask, and DeepSpeed's Ulysses leaves it out; NeMo "
     "AutoModel drops windows in a ring",
     "give a --seq below the window, or use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && short_window(m, c) && !model::rings_by_automodel(c);
     },
     with_model},
    {"--cp N, --attn other than auto, flash or cudnn",
     "it is planned of flash attention's and cuDNN's kernels", "use --attn auto",
     [](const ModelSpec&, const StepConfig& c) {
       const Attention a = c.run.attention;
       return shared(c) && a != Attention::automatic && a != Attention::flash &&
              a != Attention::cudnn;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --attn " + to_option(c.run.attention);
     }},
    {"--cp N --compute-dtype fp32, PyTorch",
     "flash and cuDNN's attention do not run in fp32, and the memory-efficient kernel is not "
     "planned where ranks share a sequence",
     "compute in bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && !trained(c) && c.precision.compute_dtype == DType::f32;
     },
     [](const ModelSpec&, const StepConfig& c) { return cp_option(c) + " --compute-dtype fp32"; }},
    {"--cp N --packing, --position-ids or --images",
     "sequences are split with positions of their own, of plain text", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && (c.run.packing > 0 || c.run.position_ids || c.run.images > 0);
     },
     [](const ModelSpec&, const StepConfig& c) { return cp_option(c); }},
};

constexpr Exclusion of_ulysses[] = {
    {"--cp N --cp-method ulysses --seq S, S no multiple of N",
     "each rank has as many tokens of every sequence", "give a --seq that is a multiple of N",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.ulysses() && c.run.seq % c.layout.cp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses --seq " + std::to_string(c.run.seq);
     }},
    {"--cp N --cp-method ulysses, heads that N does not divide",
     "each rank attends with as many heads (DeepSpeed 0.19.8, UlyssesSPAttentionHF)",
     "give an N that divides the heads",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.ulysses() && m.heads % c.layout.cp != 0;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses, " + std::to_string(m.heads) + " heads";
     }},
    {"--cp N --cp-method ulysses, heads of keys and values",
     "N divides them, or they divide N and are repeated (DeepSpeed 0.19.8, UlyssesSPAttentionHF)",
     "give an N that divides them or that they divide",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.ulysses() && m.kv_heads % c.layout.cp != 0 && c.layout.cp % m.kv_heads != 0;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses, " + std::to_string(m.kv_heads) +
              " heads of keys and values";
     }},
    {"--cp N --cp-method ulysses --framework torchtitan, torchtune or automodel",
     "they have rings, or nothing of it: it is DeepSpeed's, and accelerate's by ParallelismConfig",
     "use --framework hf or deepspeed, or --cp-method allgather",
     [](const ModelSpec&, const StepConfig& c) {
       const std::string& framework = c.runtime.framework;
       return c.layout.ulysses() &&
              (framework == "torchtitan" || framework == "torchtune" || framework == "automodel");
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses --framework " + c.runtime.framework;
     }},
    {"--cp N --cp-method ulysses --cuda-graph",
     "exchanges of heads and gathered positions were not captured", "use --cuda-graph off",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.ulysses() && c.runtime.cuda_graph != CudaGraph::off;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses --cuda-graph";
     }},
    {"--cp N --cp-method ulysses --tp T", "DeepSpeed's Ulysses splits the heads itself",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return c.layout.ulysses() && c.layout.tp > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return cp_option(c) + " --cp-method ulysses --tp " + std::to_string(c.layout.tp);
     }},
};

}  // namespace

extern const ExclusionGroup context_exclusions;
const ExclusionGroup context_exclusions{"--cp", of_contexts};
extern const ExclusionGroup ulysses_exclusions;
const ExclusionGroup ulysses_exclusions{"--cp-method ulysses", of_ulysses};

}  // namespace ac_advisor::passes
