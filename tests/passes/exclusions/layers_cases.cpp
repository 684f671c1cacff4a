// Refused: TorchTitan's and torchtune's own layers with what they have not.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void by_titan(model::ModelSpec& m, StepConfig& c) {
  m.family = "llama";
  m.tied_embeddings = m.qkv_bias = m.mlp_bias = m.output_bias = m.qk_norm = false;
  m.head_dim = m.rotary_dim = m.hidden / m.heads;
  c.runtime.framework = "torchtitan";
  c.run.transformer_impl = TransformerImpl::torchtitan;
}
void by_tune(model::ModelSpec& m, StepConfig& c) {
  by_titan(m, c);
  c.runtime.framework = "torchtune";
  c.run.transformer_impl = TransformerImpl::torchtune;
}

const Case cases[] = {
    {"--transformer-impl torchtitan or torchtune, a model that it has not",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       m.family = "olmo2";
     },
     "--transformer-impl torchtitan for olmo2"},
    {"--transformer-impl torchtitan or torchtune, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--transformer-impl torchtitan, ac-trainer"},
    {"--transformer-impl torchtitan or torchtune, --kernels fused",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "--transformer-impl torchtitan --kernels fused"},
    {"--transformer-impl torchtune, --kernels compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       by_tune(m, c);
       c.memory.kernels = Kernels::compiled;
     },
     "--transformer-impl torchtune --kernels compiled"},
    {"--transformer-impl torchtitan --kernels compiled --fp8 rowwise",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.memory.kernels = Kernels::compiled;
       c.precision.fp8 = Fp8Recipe::rowwise;
     },
     "--transformer-impl torchtitan --kernels compiled --fp8 rowwise"},
    {"--transformer-impl torchtitan or torchtune, --attn eager, math or efficient",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.run.attention = Attention::eager;
     },
     "--transformer-impl torchtitan --attn eager"},
    {"--transformer-impl torchtune for gemma2, --attn other than auto",
     [](model::ModelSpec& m, StepConfig& c) {
       by_tune(m, c);
       m.family = "gemma2";
       m.tied_embeddings = true;
       m.activation = model::Activation::gelu_tanh;
       m.attention_softcap = 50.0, m.final_softcap = 30.0;
       c.run.attention = Attention::flash;
     },
     "--transformer-impl torchtune --attn flash"},
    {"--transformer-impl torchtitan or torchtune, a packed row, images, --dropout P or "
     "--compute-dtype fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       by_tune(m, c);
       c.run.packing = 4;
     },
     "--transformer-impl torchtune --packing 4"},
    {"--transformer-impl torchtitan --autocast, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       m.family = "qwen3_moe";
       with_mixture(m, 8);
       c.precision.autocast = true;
     },
     "--transformer-impl torchtitan --autocast bf16 for qwen3_moe"},
    {"--transformer-impl torchtitan or torchtune, --position-ids",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.run.position_ids = true;
     },
     "--transformer-impl torchtitan --position-ids"},
    {"--transformer-impl torchtitan --lora, --adapter METHOD or --quantize",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.adapters.rank = 8;
     },
     "TorchTitan 0.2.2 trains no adapters"},
    {"--transformer-impl torchtune --quantize",
     [](model::ModelSpec& m, StepConfig& c) {
       by_tune(m, c);
       c.adapters.rank = 8;
       c.adapters.quantize = Quantization::nf4;
     },
     "--transformer-impl torchtune --quantize"},
    {"--transformer-impl torchtitan or torchtune, --cp-method ulysses or --shard other than none, "
     "ddp, fsdp2 and hsdp:N",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       sharded(c, Sharding::zero1);
     },
     "--transformer-impl torchtitan --shard zero1"},
};

}  // namespace

std::span<const Case> layer_cases() { return cases; }

}  // namespace ac_advisor::test
