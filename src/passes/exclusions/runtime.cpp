// What cannot be run, though the planner can plan it for PyTorch: by ac-trainer, and in a CUDA
// graph.
#include <algorithm>
#include <string>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr Exclusion of_cuda_graph[] = {
    // A graph is captured once: what it holds must not change from step to step.
    {"--cuda-graph of any kind --optimizer other than adamw",
     "its learning rate is a number of the host's, which a graph would repeat", "use adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return c.runtime.cuda_graph != CudaGraph::off && c.optimizer.kind != Optimizer::adamw;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--cuda-graph ") + to_option(c.runtime.cuda_graph) +
              " with --optimizer " + to_option(c.optimizer.kind);
     }},
};

bool trained(const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }
bool in_8_bits(const StepConfig& c) {
  return c.optimizer.kind == Optimizer::adamw_8bit ||
         c.optimizer.kind == Optimizer::adamw_8bit_torchao;
}
bool eager(const ModelSpec& m, const StepConfig& c) {
  return c.run.attention == Attention::eager ||
         (c.run.attention == Attention::automatic && m.eager_attention_only);
}
/// The first sliding window that is shorter than the sequence; 0: none is.
std::int64_t short_window(const ModelSpec& m, const StepConfig& c) {
  const auto found = std::find_if(m.window.begin(), m.window.end(),
                                  [&](std::int64_t w) { return w > 0 && w < c.run.seq; });
  return found == m.window.end() ? 0 : *found;
}

/// What the trainer has no kernels for.
bool of_other_kind(const ModelSpec& m) {
  return m.norm != model::Norm::rms || m.plain_mlp || m.side_by_side || m.interleaved_rotary ||
         m.position_table > 0 || (m.moe && m.moe->shared_intermediate > 0) || m.latent ||
         m.position_grids != model::PositionGrids::one || m.position_scaled_queries ||
         m.attention_sinks || m.normalized_head || m.delta || m.gated_attention ||
         model::class_facts(m.family).router != model::Router::usual ||
         m.qkv_layout == model::QkvLayout::stacked;
}

constexpr Exclusion of_trainer[] = {
    {"--torch 2.15",
     "planned for PyTorch, not run by the trainer, which LibTorch 2.11 is linked to",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.runtime.torch != TorchVersion::v2_11;
     }},
    {"--tp --no-loss-parallel", "planned for PyTorch, not run by the trainer",
     "leave --no-loss-parallel out",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.layout.tp > 1 && !c.layout.loss_parallel;
     }},
    {"--tp --no-sync, --shard hsdp:N or an optimizer other than adamw and sgd",
     "planned for PyTorch, not run by the trainer",
     "use --shard none or fsdp2 and --optimizer adamw or sgd",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.layout.tp > 1 &&
              (c.layout.no_sync || c.layout.shard == Sharding::hsdp ||
               (c.optimizer.kind != Optimizer::adamw && c.optimizer.kind != Optimizer::sgd));
     }},
    {"--cp --tp, --pp or --shard hsdp:N", "planned for PyTorch, not run by the trainer",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.layout.cp > 1 &&
              (c.layout.tp > 1 || c.layout.pp > 1 || c.layout.shard == Sharding::hsdp);
     }},
    {"--tp or --pp, dropout", "ranks that share a layer would have to drop the same elements",
     "leave dropout out",
     [](const ModelSpec& m, const StepConfig& c) {
       return trained(c) && (c.layout.tp > 1 || c.layout.pp > 1) &&
              (c.run.dropout > 0.0 || m.attention_dropout > 0.0);
     }},
    {"--loss ce-compiled", "planned for PyTorch, not run by the trainer", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.memory.loss == LossKind::ce_compiled;
     }},
    {"--loss tiled, --loss chunked-logits:N", "planned for PyTorch, not run by the trainer",
     "use --loss lc-ce",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) &&
              (c.memory.loss == LossKind::tiled || c.memory.loss == LossKind::chunked_logits);
     },
     [](const ModelSpec&, const StepConfig& c) { return "--loss " + loss_option(c); }},
    {"--clip-grad --shard zero1 or zero2",
     "the trainer takes the norm of whole gradients, or of FSDP2's shards",
     "use --shard none, ddp or fsdp2, or --clip-grad 0",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.optimizer.clip_grad > 0 && c.layout.zero();
     }},
    {"--ema, --optimizer-in-backward", "planned for PyTorch, not run by the trainer",
     "leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && (c.optimizer.ema || c.optimizer.in_backward);
     }},
    {"--optimizer other than adamw, adamw-foreach, sgd, adamw-8bit and adamw-8bit-torchao",
     "planned for PyTorch, not run by the trainer", "use one of these five",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.optimizer.kind != Optimizer::adamw &&
              c.optimizer.kind != Optimizer::adamw_foreach && c.optimizer.kind != Optimizer::sgd &&
              !in_8_bits(c);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--optimizer ") + to_option(c.optimizer.kind);
     }},
    {"--optimizer adamw-8bit or adamw-8bit-torchao, on a GPU",
     "the trainer's states in 8 bits are the CPU's alone", "use --gpu cpu, or --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && in_8_bits(c) && c.device.gpu != "cpu";
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--optimizer ") + to_option(c.optimizer.kind);
     }},
    {"--seq 1", "leaves no next token to predict", "give 2 or more",
     [](const ModelSpec&, const StepConfig& c) { return trained(c) && c.run.seq < 2; }},
    {"--dropout with flash attention", "the trainer's has no dropout", "use --attn eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return trained(c) && (c.run.dropout > 0.0 || m.attention_dropout > 0.0) && !eager(m, c);
     }},
    {"--attn cudnn, --attn flash1", "the trainer has flash and eager attention",
     "use flash, eager or auto",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) &&
              (c.run.attention == Attention::cudnn || c.run.attention == Attention::flash1);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention);
     }},
    {"a sliding window below --seq with flash attention", "the trainer's has no windows",
     "use --attn eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return trained(c) && short_window(m, c) > 0 && !eager(m, c);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "a sliding window of " + std::to_string(short_window(m, c)) + " tokens below --seq " +
              std::to_string(c.run.seq) + " with flash attention";
     }},
    {"--loss chunked:TOKENS, a model that soft-caps its logits", "the chunked loss does not",
     "use ce or lc-ce",
     [](const ModelSpec& m, const StepConfig& c) {
       return trained(c) && c.memory.loss == LossKind::chunked && m.final_softcap.has_value();
     }},
    {"--capacity-factor", "the trainer routes tokens as the router says", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return trained(c) && c.run.capacity_factor != 1.0;
     }},
    {"LayerNorm, an MLP without a gate, attention and MLP side by side, an interleaved rotation, "
     "learned positions, a shared expert, latent attention, attention sinks, positions in three "
     "grids, queries scaled by position, gated delta nets, routers of granitemoe and minimax_m2",
     "planned for PyTorch, not run by the trainer", "plan it instead",
     [](const ModelSpec& m, const StepConfig& c) { return trained(c) && of_other_kind(m); },
     [](const ModelSpec& m, const StepConfig&) { return m.family; }},
    {"num_kv_shared_layers", "the trainer has no shared keys and values", "plan it instead",
     [](const ModelSpec& m, const StepConfig& c) { return trained(c) && m.kv_sharing; }},
    {"vision_config", "the trainer has no encoder of images", "give it the decoder's configuration",
     [](const ModelSpec& m, const StepConfig& c) { return trained(c) && m.tower.has_value(); }},
    {"rope_scaling of another type", "the trainer has default, linear and llama3",
     "plan it instead",
     [](const ModelSpec& m, const StepConfig& c) {
       return trained(c) && m.rope_scaling && m.rope_scaling->type != "linear" &&
              m.rope_scaling->type != "llama3";
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "rope_scaling \"" + m.rope_scaling->type + "\"";
     }},
};

}  // namespace

extern const ExclusionGroup cuda_graph_exclusions, trainer_exclusions;
const ExclusionGroup cuda_graph_exclusions{"--cuda-graph", of_cuda_graph};
const ExclusionGroup trainer_exclusions{"ac-trainer", of_trainer};

}  // namespace ac_advisor::passes
