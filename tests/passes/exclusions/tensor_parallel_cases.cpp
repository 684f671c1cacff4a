// Refused: split layers.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

/// AutoModel's layers, in two parts.
void adapted(StepConfig& c, std::int64_t rank = 8) {
  c.layout.tp = c.layout.world = 2;
  c.adapters.rank = rank;
  c.adapters.targets = "all-linear";
  c.adapters.dtype = DType::bf16;
}

/// Each rank of a layer has all tokens; two of four ranks share one.
void with_whole_tokens(StepConfig& c) {
  c.layout.tp = 2;
  c.layout.world = 4;
  c.layout.shard = Sharding::fsdp2;
  c.layout.sequence_parallel = false;
}

void experts_of_torchtitan(model::ModelSpec& m, StepConfig& c) {
  m.family = "qwen3_moe";
  m.moe.emplace().intermediate = 64;
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
  c.layout.tp = c.layout.world = 2;
  c.run.transformer_impl = TransformerImpl::torchtitan;
}

const Case cases[] = {
    {"--tp T --world N",
     [](auto&, StepConfig& c) {
       c.layout.tp = 2;
       c.layout.world = 3;
     },
     "--tp 2 --world 3: the world must be divisible by T"},
    {"--tp T, a mixture of experts, TorchTitan's layers, a width of experts that T does not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       experts_of_torchtitan(m, c);
       m.moe->intermediate = 63;
     },
     "as much of every expert"},
    {"--tp --fp8, a mixture of experts, TorchTitan's layers",
     [](model::ModelSpec& m, StepConfig& c) {
       experts_of_torchtitan(m, c);
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "beside split experts"},
    {"--tp --sp, a mixture of experts, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.moe.emplace();
     },
     "use --no-sp --shard fsdp2"},
    {"--tp --no-sp, a mixture with shared experts or with biases",
     [](model::ModelSpec& m, StepConfig& c) {
       with_whole_tokens(c);
       m.moe.emplace().shared_intermediate = 64;
     },
     "leaves a shared expert's layers whole"},
    {"--tp --sp, a model with Gemma's norms",
     [](model::ModelSpec& m, StepConfig& c) {
       with_whole_tokens(c);
       c.layout.sequence_parallel = true;
       m.sandwich_norms = m.unit_offset_norm = true;
     },
     "use --no-sp --shard fsdp2"},
    {"--tp, a model whose layers are not like Llama's or Gemma's",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.fused_qkv = true;
     },
     "layers of their own"},
    {"--tp T, heads, MLP or vocabulary that T does not divide",
     [](auto&, StepConfig& c) { c.layout.tp = c.layout.world = 4; },
     "--tp 4 of 4 heads, 2 of keys and values, 160 in the MLP and a vocabulary of 512 (these have "
     "1, 2)"},
    {"--tp T --seq S, S no multiple of T",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.run.seq = 33;
     },
     "--tp 2 --seq 33"},
    {"--tp, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.window.assign(4, 16);
     },
     "step ends with an error"},
    {"--tp --no-sp, neither --shard fsdp2 nor hsdp:N",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.layout.sequence_parallel = false;
     },
     "plain tensors beside DTensors"},
    {"--tp --no-sp --clip-grad, --framework other than automodel and hf",
     [](auto&, StepConfig& c) {
       with_whole_tokens(c);
       c.optimizer.clip_grad = 1.0;
       c.runtime.framework = "trl";
     },
     "gradients of two meshes"},
    {"--tp --no-sp, --kernels compiled, --cp or --pp",
     [](auto&, StepConfig& c) {
       with_whole_tokens(c);
       c.memory.kernels = Kernels::compiled;
     },
     "leave --no-sp out"},
    {"--tp --no-sp, torchtitan's layers",
     [](model::ModelSpec& m, StepConfig& c) {
       with_whole_tokens(c);
       c.run.transformer_impl = TransformerImpl::torchtitan;
       m.tied_embeddings = false;
     },
     "always has parts of sequences"},
    {"--tp --no-sp, ac-trainer",
     [](auto&, StepConfig& c) {
       with_whole_tokens(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "plan it instead"},
    {"--tp, --shard other than none, fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.layout.tp = 2;
       c.layout.world = 4;
       c.layout.shard = Sharding::ddp;
     },
     "--tp 2 --shard ddp"},
    {"--tp --attn eager",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.run.attention = Attention::eager;
     },
     "use --attn auto, flash or cudnn"},
    {"--tp, a loss other than ce or ce-compiled",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.memory.loss = LossKind::lc_ce;
     },
     "--tp 2 --loss lc-ce"},
    {"--tp --kernels fused",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.memory.kernels = Kernels::fused;
     },
     "use --kernels eager"},
    {"--tp --no-sp --kernels fused --framework automodel",
     [](auto&, StepConfig& c) {
       with_whole_tokens(c);
       c.runtime.framework = "automodel";
       c.memory.kernels = Kernels::fused;
     },
     "turns Liger's kernels off"},
    {"--tp --no-sp --kernels fused, a model with Gemma's norms",
     [](model::ModelSpec& m, StepConfig& c) {
       with_whole_tokens(c);
       m.sandwich_norms = m.unit_offset_norm = true;
       c.memory.kernels = Kernels::fused;
     },
     "use --kernels eager"},
    {"--tp --autocast",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "its casts of DTensors"},
    {"--tp --adapter METHOD",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       by(c, AdapterMethod::ia3);
     },
     "use --lora RANK"},
    {"--tp --lora --framework torchtitan",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.runtime.framework = "torchtitan";
     },
     "trains no adapters"},
    {"--tp --lora, --framework other than automodel and hf",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.runtime.framework = "trl";
     },
     "use --framework automodel"},
    {"--tp --lora, --dora, --lora-dropout or --quantize",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.adapters.dropout = 0.1;
     },
     "do these in parts"},
    {"--tp T --lora RANK, RANK no multiple of T", [](auto&, StepConfig& c) { adapted(c, 7); },
     "--tp 2 --lora 7"},
    {"--tp --lora, adapters in another dtype than the computation",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.adapters.dtype = DType::f32;
     },
     "such as --lora-dtype bf16"},
    {"--tp --lora --kernels compiled or --fp8",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.memory.kernels = Kernels::compiled;
     },
     "inside a compiled block"},
    {"--tp --lora, ac-trainer",
     [](auto&, StepConfig& c) {
       adapted(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "plan it instead"},
    {"--tp, an optimizer other than adamw, adamw-foreach or sgd",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.kind = Optimizer::muon;
     },
     "--tp 2 --optimizer muon"},
    {"--tp --ema or --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.ema = true;
     },
     "what they make of DTensors"},
};

}  // namespace

std::span<const Case> tensor_parallel_cases() { return cases; }

}  // namespace ac_advisor::test
