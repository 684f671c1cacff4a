// What of DeepSpeed's ZeRO 3 is not planned.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool used(const StepConfig& c) { return c.layout.zero3(); }

constexpr Exclusion table[] = {
    {"--shard zero3, an architecture other than Llama's kind of dense decoder",
     "which modules its hooks stand before, and what DeepSpeed's linear function does in them, was "
     "compared with RMSNorm, rotary positions and a gated MLP alone; of experts it gathers a block "
     "together",
     "use --shard fsdp2 or zero2",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(c) &&
              (m.moe || m.latent || m.delta || m.tower || m.norm != model::Norm::rms ||
               m.plain_mlp || m.side_by_side || m.input_first || m.position_table > 0 || m.alibi ||
               m.attention_sinks || m.embedding_norm || m.gated_attention || m.normalized_head ||
               m.kv_sharing || m.residual_inside || m.rotary_in_block || m.unweighted_qk_norm);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--shard zero3 of a " + m.family; }},
    {"--shard zero3, --ac other than none, full or every:K",
     "under its hooks transformers' own checkpoints around whole blocks were compared",
     "use --ac none, full or every:K, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && ((c.memory.ac != AcMode::none && c.memory.ac != AcMode::full &&
                           c.memory.ac != AcMode::every) ||
                          c.memory.scope != AcScope::block);
     },
     [](const ModelSpec&, const StepConfig& c) { return "--shard zero3 --ac " + ac_option(c); }},
    {"--shard zero3, --loss other than ce or ce-no-upcast",
     "a loss that reads the head's weight would have it gathered by a hook of another kind",
     "use --loss ce, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.loss != LossKind::ce && c.memory.loss != LossKind::ce_no_upcast;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--shard zero3 --loss " + loss_option(c);
     }},
    {"--shard zero3, parameters or gradients of another dtype than bf16, or autocast",
     "its masters, gradients and hooks were compared with bf16 alone", "use bf16, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) &&
              (c.precision.param_dtype != DType::bf16 || c.precision.compute_dtype != DType::bf16 ||
               c.precision.reduce_dtype != DType::bf16 || c.precision.autocast);
     }},
    {"--shard zero3 --kernels fused", "fused kernels read weights past its linear function",
     "use --kernels eager, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.kernels == Kernels::fused;
     }},
    {"--shard zero3, run by the trainer", "planned for PyTorch, not run by the trainer",
     "use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
};

}  // namespace

extern const ExclusionGroup zero3_exclusions;
const ExclusionGroup zero3_exclusions{"zero3", table};

}  // namespace ac_advisor::passes
