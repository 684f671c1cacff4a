// What a step of litgpt's cannot be combined with, and why.
#include <algorithm>
#include <string>
#include <string_view>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/lowering/litgpt.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr std::string_view compared[] = {"gemma", "gpt_neox", "llama", "mistral", "phi", "qwen2"};

bool has_windows(const ModelSpec& m) {
  return std::any_of(m.window.begin(), m.window.end(), [](std::int64_t w) { return w > 0; });
}

constexpr Exclusion of_litgpt[] = {
    {"--framework litgpt, a family other than gemma, gpt_neox, llama, mistral, phi and qwen2, or a "
     "model with windows or biases that theirs have not",
     "litgpt's layers of others are not planned", "plan it with --framework hf",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool known =
           std::find(std::begin(compared), std::end(compared), m.family) != std::end(compared);
       const bool of_all = m.family == "gpt_neox" || m.family == "phi";
       return c.litgpt() && (!known || has_windows(m) || m.mlp_bias != of_all ||
                             m.output_bias != of_all || m.qk_norm);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--framework litgpt for " + m.family; }},
    {"--framework litgpt --world N, --pp, --tp or --cp",
     "on several GPUs it has units of FSDP of its own, which are not planned",
     "use --world 1, or --framework torchtune",
     [](const ModelSpec&, const StepConfig& c) { return c.litgpt() && c.layout.world > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework litgpt --world " + std::to_string(c.layout.world);
     }},
    {"--framework litgpt --ac other than none", "it checkpoints activations on several GPUs alone",
     "use --ac none",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() && c.memory.ac != AcMode::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework litgpt --ac " + ac_option(c);
     }},
    {"--framework litgpt, a loss other than ce, --no-hold-output or --output-dtype bf16",
     "its loop has chunked_cross_entropy of logits in fp32, which it keeps",
     "leave --loss, --hold-output and --output-dtype out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() &&
              (c.memory.loss != LossKind::ce || !c.memory.hold_output || !c.memory.wide_output);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework litgpt --loss " + loss_option(c) +
              (c.memory.hold_output ? "" : " --no-hold-output") +
              (c.memory.wide_output ? "" : " --output-dtype bf16");
     }},
    {"--framework litgpt --attn other than auto, flash and cudnn",
     "it calls scaled_dot_product_attention without a mask", "use --attn auto",
     [](const ModelSpec&, const StepConfig& c) {
       const Attention a = c.run.attention;
       return c.litgpt() && a != Attention::automatic && a != Attention::flash &&
              a != Attention::cudnn;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--framework litgpt --attn ") + to_option(c.run.attention);
     }},
    {"--framework litgpt, parameters or a computation in other than bf16",
     "of its precisions bf16-true is planned", "leave --param-dtype and --autocast out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() && (c.precision.param_dtype != DType::bf16 || c.precision.autocast ||
                             c.precision.float8() || c.adapters.kbit_prepare ||
                             (c.adapters.used() && c.adapters.dtype != DType::bf16));
     }},
    {"--framework litgpt, what its finetuning scripts have not: other adapters than LoRA, DoRA, "
     "int8, a packed row, position_ids, images, offloading, clipping, compiled or fused kernels",
     "none of it is there to compare with", "leave it out, or plan it with --framework hf",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() &&
              (c.adapters.of_another_method() || c.adapters.dora ||
               c.adapters.quantize == Quantization::int8 || c.run.packing > 0 ||
               c.run.position_ids || c.run.images > 0 || c.run.dropout > 0.0 ||
               c.memory.offload != Offload::none || c.optimizer.clip_grad > 0.0 ||
               c.optimizer.in_backward || c.optimizer.ema || c.optimizer.master_weights ||
               c.optimizer.grad_scaler || c.memory.kernels != Kernels::eager ||
               c.runtime.cuda_graph != CudaGraph::off || c.adapters.input_grads == InputGrads::on);
     }},
    {"--framework litgpt --quantize, an optimizer other than paged-adamw",
     "instantiate_bnb_optimizer makes a PagedAdamW of whatever AdamW it is given",
     "leave --optimizer out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() && c.adapters.used() && c.adapters.four_bit() &&
              c.optimizer.kind != Optimizer::paged_adamw;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--framework litgpt --quantize ") + to_option(c.adapters.quantize) +
              " --optimizer " + to_option(c.optimizer.kind);
     }},
    {"--framework litgpt --lora, a --seq of 1 or of one token more than chunks of 128",
     "the last chunk of logits has no token then whose next is known",
     "give a token more, or one less",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() &&
              (c.run.seq == 1 || (c.adapters.used() && c.run.seq % litgpt_chunk_tokens == 1));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework litgpt --seq " + std::to_string(c.run.seq);
     }},
    {"--framework litgpt, ac-trainer", "the trainer has transformers' layers alone",
     "plan it, or train with --framework hf",
     [](const ModelSpec&, const StepConfig& c) {
       return c.litgpt() && c.runtime.kind != Runtime::pytorch;
     }},
};

}  // namespace

extern const ExclusionGroup litgpt_exclusions;
const ExclusionGroup litgpt_exclusions{"--framework litgpt", of_litgpt};

}  // namespace ac_advisor::passes
