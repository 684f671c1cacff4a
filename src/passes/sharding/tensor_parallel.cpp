// What tensor parallelism leaves to the optimizer, and what it refuses. The layers themselves are
// lowered in parts (lowering/parallel.cpp). Gradients stay as backward left them until somebody
// needs them like their parameters: norms' are sums of this rank's tokens, an embedding's is of the
// whole vocabulary (PyTorch v2.11, torch/distributed/tensor). FSDP2 asks for them after each unit's
// backward (fsdp2.cpp), an optimizer in its step.
#include "tensor_parallel.hpp"

#include <numeric>
#include <string>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::ValueId;

ValueId redistributed(StepProgram& step, const Parameter& parameter, ValueId gradient,
                      std::int64_t tp_rank, ir::Phase phase, ir::Role role) {
  ir::Program& p = step.program;
  const ir::Shape shape = p.value(parameter.value).shape;
  const bool whole = p.value(gradient).shape.numel() > shape.numel();
  if (!whole && !parameter.partial) return gradient;
  const std::int32_t last = p.ops.empty() ? 0 : p.ops.back().group;
  if (whole && parameter.summed) {
    // chunks of its columns are laid one after another, then reduce-scattered
    const std::int64_t ranks = p.value(gradient).shape.numel() / shape.numel();
    const ir::TpScatter over{static_cast<std::int32_t>(ranks), static_cast<std::int32_t>(tp_rank)};
    const DType type = p.value(gradient).dtype;
    const ValueId in_turn =
        p.make({ranks * shape[0], shape[1]}, type, ir::Role::temporary, parameter.module);
    const ValueId own = p.make(shape, type, role, parameter.module);
    p.op(p.emit(OpKind::clone, phase, parameter.module, {gradient}, {in_turn},
                ir::Rearrange{ir::Moved::words_apart, over.ranks}))
        .group = last + 1;
    p.op(p.emit(OpKind::tp_reduce_scatter, phase, parameter.module, {in_turn}, {own}, over)).group =
        last + 1;
    return own;
  }
  const ValueId own = p.make(shape, p.value(gradient).dtype, role, parameter.module);
  const ValueId from = whole ? p.narrow(gradient, 0, tp_rank * shape[0], shape[0]) : gradient;
  const ir::OpId op =
      p.emit(whole ? OpKind::clone : OpKind::tp_all_reduce, phase, parameter.module, {from}, {own});
  p.op(op).group = last + 1;
  return own;
}

namespace {

/// Gemma's own: of each token, of each head or of each part of the vocabulary by itself, so nothing
/// of it asks more of a plan by which every rank has all tokens.
bool has_gemmas_own(const model::ModelSpec& m) {
  return m.unit_offset_norm || m.sandwich_norms || m.scaled_embedding || m.final_softcap ||
         m.attention_softcap;
}

/// Layers that can be split as Llama's are.
bool splits_as_llama(const model::ModelSpec& m) {
  const bool projections = !m.fused_qkv && !m.fused_gate_up && !m.plain_mlp && !m.input_first &&
                           !m.output_bias && !m.mlp_bias && !m.head_bias;
  const bool norms = m.norm == model::Norm::rms && !m.post_norms_only && !m.qk_norm_whole &&
                     !m.norms_after_heads && !m.wide_norm_scale &&
                     !model::class_facts(m.family).norms_after_rotation;
  const bool block = !m.side_by_side && !m.kv_sharing && m.position_table == 0 &&
                     !m.interleaved_rotary && !m.joined_rotary_part && !m.residual_multiplier &&
                     !m.embedding_multiplier && !m.logits_divisor && !m.logits_multiplier &&
                     !m.hidden_divisor && !m.latent && !m.attention_sinks &&
                     !m.position_scaled_queries && m.rotation == model::Rotation::halves &&
                     m.position_grids == model::PositionGrids::one && m.graph == nullptr;
  return projections && norms && block && !m.tower && m.residual_dropout == 0.0 &&
         m.embedding_dropout == 0.0;
}

}  // namespace

bool llama_like(const model::ModelSpec& m) { return splits_as_llama(m) && !has_gemmas_own(m); }

bool short_window(const model::ModelSpec& m, const StepConfig& c) {
  return m.window_within(c.run.seq);
}

namespace {

using model::ModelSpec;

bool parallel(const StepConfig& c) { return c.layout.tp > 1; }
bool adapted(const StepConfig& c) { return parallel(c) && c.adapters.rank > 0; }
bool whole(const StepConfig& c) { return c.layout.has_whole_tokens(); }
bool of_titan(const StepConfig& c) { return c.run.transformer_impl == TransformerImpl::torchtitan; }
bool applies(const StepConfig& c) { return parallel(c) && !c.layout.gathers(); }

/// The optimizer's ops need gradients like their parameters: OptimizerOps::gradients. The trainer's
/// optimizers read each gradient once; it makes them so once, and they are what ranks compare.
void run(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  if (config.runtime.kind != Runtime::ac_trainer) {
    step.redistributes_for = config.layout.tp_rank;
    return;
  }
  std::size_t i = 0;
  for (const Parameter& parameter : step.parameters) {
    if (!parameter.trained) continue;
    ValueId& gradient = step.optimized[i++].gradient;
    gradient = redistributed(step, parameter, gradient, config.layout.tp_rank, ir::Phase::optimizer,
                             ir::Role::temporary);
  }
}

std::string tp_option(const StepConfig& c) { return "--tp " + std::to_string(c.layout.tp); }
std::string with_model(const ModelSpec& m, const StepConfig& c) {
  return tp_option(c) + " for " + m.family;
}

/// What a layer's sizes have in common; tp divides it.
std::int64_t common_divisor(const ModelSpec& m) {
  return std::gcd(std::gcd(m.heads, m.kv_heads), std::gcd(m.intermediate, m.vocab));
}

/// "1, 2, 4"
std::string divisors(std::int64_t n) {
  std::string all;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all += (all.empty() ? "" : ", ") + std::to_string(d);
  return all;
}

std::string sizes(const ModelSpec& m, const StepConfig& c) {
  return tp_option(c) + " of " + std::to_string(m.heads) + " heads, " + std::to_string(m.kv_heads) +
         " of keys and values, " + std::to_string(m.intermediate) +
         " in the MLP and a vocabulary of " + std::to_string(m.vocab) + " (these have " +
         divisors(common_divisor(m)) + ")";
}

constexpr Exclusion exclusions_of_tp[] = {
    {"--tp T --world N",
     "the world must be divisible by T: the ranks that are left see different data",
     "use a multiple of T",
     [](const ModelSpec&, const StepConfig& c) { return c.layout.world % c.layout.tp != 0; },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --world " + std::to_string(c.layout.world);
     }},
    {"--tp T, a mixture of experts, TorchTitan's layers, a width of experts that T does not divide",
     "each rank has as much of every expert as every other (TensorParallel)",
     "give a T that divides it",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && of_titan(c) && m.moe && m.moe->intermediate % c.layout.tp != 0;
     },
     with_model},
    {"--tp --fp8, a mixture of experts, TorchTitan's layers",
     "Float8Linear beside split experts is not planned yet", "leave one of them out",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && of_titan(c) && m.moe && c.precision.float8();
     },
     with_model},
    {"--tp --sp, a mixture of experts, transformers' layers",
     "routers are given DTensors beside their plain weights, which PyTorch refuses (AutoModel "
     "0.5.0's default plan, TorchTitan 0.2.2's experiment with transformers' layers)",
     "use --no-sp --shard fsdp2",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && !whole(c) && m.moe.has_value() && !of_titan(c);
     },
     with_model},
    {"--tp --no-sp, a mixture with shared experts or with biases",
     "AutoModel's default plan leaves a shared expert's layers whole, which is not planned beside "
     "split ones, nor are experts' biases",
     "use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return whole(c) && m.moe &&
              (m.moe->shared_intermediate > 0 || m.moe->biased || m.moe->every_expert);
     },
     with_model},
    {"--tp --sp, a model with Gemma's norms",
     "no plan of TorchTitan or NeMo AutoModel has parts of sequences for all of its norms: one "
     "that is left out is given a DTensor beside its plain weight, which PyTorch refuses",
     "use --no-sp --shard fsdp2",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && c.layout.sequence_parallel && splits_as_llama(m) && has_gemmas_own(m);
     },
     with_model},
    {"--tp, a model whose layers are not like Llama's or Gemma's",
     "other layers in parts are not planned: the plans are of RMSNorms and a gated MLP, of q, k, "
     "v, gate and up as layers of their own, without biases of o and down (AutoModel 0.5.0 has "
     "another plan for Phi-3's fused layers, by which each rank has all heads)",
     "use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) { return parallel(c) && !splits_as_llama(m); },
     with_model},
    {"--tp T, heads, MLP or vocabulary that T does not divide",
     "each rank has as many as every other", "give one of those",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && common_divisor(m) % c.layout.tp != 0;
     },
     sizes},
    {"--tp T --seq S, S no multiple of T", "each rank has a part of every sequence",
     "give a --seq that is a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.layout.sequence_parallel && c.run.seq % c.layout.tp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --seq " + std::to_string(c.run.seq);
     }},
    {"--tp, a sliding window within --seq",
     "transformers makes its mask along the hidden states, of which each rank has a part: "
     "PyTorch's step ends with an error",
     "give a --seq below the window, or use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return parallel(c) && c.layout.sequence_parallel && short_window(m, c);
     },
     with_model},
    {"--tp --no-sp, neither --shard fsdp2 nor hsdp:N",
     "norms are then plain tensors beside DTensors, which PyTorch's optimizers refuse to step "
     "together",
     "add --shard fsdp2, or leave --no-sp out",
     [](const ModelSpec&, const StepConfig& c) { return whole(c) && !c.layout.gathers(); }},
    {"--tp --no-sp --clip-grad, --framework other than automodel and hf",
     "torch.nn.utils.clip_grad_norm_ refuses gradients of two meshes; AutoModel has its own "
     "function",
     "use --framework automodel, or leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.optimizer.clip_grad > 0 && c.runtime.framework != "automodel" &&
              c.runtime.framework != "hf";
     }},
    {"--tp --no-sp, --kernels compiled, --cp or --pp",
     "layers whose ranks have all tokens are not planned beside these yet", "leave --no-sp out",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) &&
              (c.memory.kernels == Kernels::compiled || c.layout.cp > 1 || c.layout.pp > 1);
     }},
    {"--tp --no-sp, torchtitan's layers", "its plan always has parts of sequences",
     "leave --no-sp out",
     [](const ModelSpec&, const StepConfig& c) { return whole(c) && of_titan(c); }},
    {"--tp --no-sp, ac-trainer", "planned for PyTorch, not run by the trainer", "plan it instead",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--tp, --shard other than none, fsdp2 or hsdp:N",
     "PyTorch composes DTensor's tensor parallelism with fully_shard; others are not planned",
     "use --shard fsdp2 or hsdp:N, or --shard none with a world of T",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.layout.shard != Sharding::none && !c.layout.gathers();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --shard " + shard_option(c);
     }},
    {"--tp --attn eager",
     "transformers makes its mask along the hidden states, of which each rank has a part",
     "use --attn auto, flash or cudnn",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.layout.sequence_parallel && c.run.attention == Attention::eager;
     }},
    {"--tp, a loss other than ce or ce-compiled",
     "only cross-entropy of whole logits knows of a split vocabulary", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.memory.loss != LossKind::ce &&
              c.memory.loss != LossKind::ce_compiled;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --loss " + loss_option(c);
     }},
    {"--tp --kernels fused", "fused kernels are given plain tensors, and norms are DTensors",
     "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && !whole(c) && c.memory.kernels == Kernels::fused;
     }},
    {"--tp --no-sp --kernels fused --framework automodel",
     "AutoModel turns Liger's kernels off beside tp_size (0.5.0, _transformers/kernel_patches.py)",
     "use --kernels eager, or --framework hf for a loop of one's own with both",
     [](const ModelSpec&, const StepConfig& c) {
       return whole(c) && c.memory.kernels == Kernels::fused && c.runtime.framework == "automodel";
     }},
    {"--tp --no-sp --kernels fused, a model with Gemma's norms",
     "Liger's GEGLU leaves what it saved of earlier forwards allocated, which is not planned yet: "
     "up to 4 % more",
     "use --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return whole(c) && c.memory.kernels == Kernels::fused && !llama_like(m);
     }},
    {"--tp --autocast", "its casts of DTensors are not planned yet", "add --autocast none",
     [](const ModelSpec&, const StepConfig& c) { return parallel(c) && c.precision.autocast; }},
    {"--tp --adapter METHOD", "methods beside LoRA are not planned of split layers yet",
     "use --lora RANK",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.adapters.of_another_method();
     }},
    {"--tp --lora --framework torchtitan", "TorchTitan 0.2.2 trains no adapters",
     "use --framework automodel, whose layers split both",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && c.runtime.framework == "torchtitan";
     }},
    {"--tp --lora, --framework other than automodel and hf",
     "PEFT keeps one matrix of each pair whole on every rank, which is not planned yet",
     "use --framework automodel, whose layers split both",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && c.runtime.framework != "automodel" && c.runtime.framework != "hf";
     }},
    {"--tp --lora, --dora, --lora-dropout or --quantize",
     "how AutoModel's layers do these in parts is not planned yet", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && (c.adapters.dora || c.adapters.dropout > 0.0 || c.adapters.quantized());
     }},
    {"--tp T --lora RANK, RANK no multiple of T", "each rank has as many of a pair's ranks",
     "give a multiple of T",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && c.adapters.rank % c.layout.tp != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --lora " + std::to_string(c.adapters.rank);
     }},
    {"--tp --lora, adapters in another dtype than the computation",
     "AutoModel's layers cast neither their input nor their result: PyTorch refuses the product",
     "give --lora-dtype the dtype of the computation, such as --lora-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && lora_dtype(c) != c.precision.compute_dtype;
     }},
    {"--tp --lora --kernels compiled or --fp8",
     "adapters in parts inside a compiled block, or beside Float8Linear, are not planned yet",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && (c.memory.kernels == Kernels::compiled || c.precision.float8());
     }},
    {"--tp --lora, ac-trainer", "planned for PyTorch, not run by the trainer", "plan it instead",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--tp, an optimizer other than adamw, adamw-foreach or sgd",
     "its temporaries of DTensors are not planned yet", "use --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && c.optimizer.kind != Optimizer::adamw &&
              c.optimizer.kind != Optimizer::adamw_foreach && c.optimizer.kind != Optimizer::sgd;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return tp_option(c) + " --optimizer " + to_option(c.optimizer.kind);
     }},
    {"--tp --ema or --optimizer-in-backward", "what they make of DTensors is not planned yet",
     "leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return parallel(c) && (c.optimizer.ema || c.optimizer.in_backward);
     }},
};

}  // namespace

extern const Pass tensor_parallel_pass;
const Pass tensor_parallel_pass{
    "tp-gradients",
    Stage::step,
    "tp: the optimizer's ops get gradients as their parameters are split",
    applies,
    run,
    exclusions_of_tp,
    Of::pytorch};

}  // namespace ac_advisor::passes
