// Refused: litgpt's layers and loop.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--framework litgpt, a family other than gemma, gpt_neox, llama, mistral, phi and qwen2, or a "
     "model with windows or biases that theirs have not",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       m.family = "olmo2";
     },
     "litgpt's layers of others are not planne"},
    {"--framework litgpt --world N, --pp, --tp or --cp",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "on several GPUs it has units of FSDP of "},
    {"--framework litgpt --ac other than none",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.memory.ac = AcMode::full;
     },
     "--framework litgpt --ac full"},
    {"--framework litgpt, a loss other than ce, --no-hold-output or --output-dtype bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--framework litgpt --loss lc-ce"},
    {"--framework litgpt --attn other than auto, flash and cudnn",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.run.attention = Attention::eager;
     },
     "--framework litgpt --attn eager"},
    {"--framework litgpt, parameters or a computation in other than bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "of its precisions bf16-true is planned"},
    {"--framework litgpt, what its finetuning scripts have not: other adapters than LoRA, DoRA, "
     "int8, a packed row, position_ids, images, offloading, clipping, compiled or fused kernels",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.optimizer.clip_grad = 1.0;
     },
     "none of it is there"},
    {"--framework litgpt --quantize, an optimizer other than paged-adamw",
     [](model::ModelSpec& m, StepConfig& c) {
       in_four_bits(m, c);
       c.optimizer.kind = Optimizer::adamw;
     },
     "--framework litgpt --quantize nf4 --optimizer adamw"},
    {"--framework litgpt --lora, a --seq of 1 or of one token more than chunks of 128",
     [](model::ModelSpec& m, StepConfig& c) {
       in_four_bits(m, c);
       c.optimizer.kind = Optimizer::paged_adamw;
       c.run.seq = 129;
     },
     "--framework litgpt --seq 129"},
    {"--framework litgpt, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "transformers' layers alone"},
};

}  // namespace

std::span<const Case> litgpt_cases() { return cases; }

}  // namespace ac_advisor::test
