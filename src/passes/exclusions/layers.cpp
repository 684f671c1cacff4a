// What TorchTitan's and torchtune's own layers cannot be combined with, and why. Where a
// framework's preset asks for them, transformers' are planned in its loop instead
// (advise/resolve.cpp).
#include <string>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool own(const StepConfig& c) { return model::has_own_layers(c.run.transformer_impl); }
bool of_titan(const StepConfig& c) { return c.run.transformer_impl == TransformerImpl::torchtitan; }

std::string with(const StepConfig& c, const std::string& other) {
  return std::string("--transformer-impl ") + to_option(c.run.transformer_impl) + other;
}

constexpr const char* with_hf = "use --transformer-impl hf: transformers' layers in its loop";

constexpr Exclusion of_layers[] = {
    {"--transformer-impl torchtitan or torchtune, a model that it has not",
     "TorchTitan's llama3 (untied) and qwen3 (dense, or with experts in every block), without "
     "biases or windows, and torchtune's llama, mistral, qwen2, phi3 and gemma2 are planned; "
     "torchtune 0.6.1 has no qwen3",
     with_hf,
     [](const ModelSpec& m, const StepConfig& c) {
       return own(c) && !model::layer_forms(c.run.transformer_impl, m);
     },
     [](const ModelSpec& m, const StepConfig& c) { return with(c, " for " + m.family); }},
    {"--transformer-impl torchtitan or torchtune, ac-trainer",
     "the trainer has transformers' layers alone", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return own(c) && c.runtime.kind != Runtime::pytorch;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, ", ac-trainer"); }},
    {"--transformer-impl torchtitan or torchtune, --kernels fused",
     "it has no such kernels in its layers", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return own(c) && c.memory.kernels == Kernels::fused;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, " --kernels fused"); }},
    {"--transformer-impl torchtune, --kernels compiled",
     "what torch.compile makes of its layers is not planned yet", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return own(c) && !of_titan(c) && c.memory.kernels == Kernels::compiled;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, " --kernels compiled"); }},
    {"--transformer-impl torchtitan --kernels compiled --fp8 rowwise",
     "TorchTitan 0.2.2 then has Inductor round as eager kernels do (emulate_precision_casts), with "
     "which backward holds more than is planned: of two steps 0.3 and 0.4 GB, 10 and 5 %",
     "use --fp8 tensorwise, or --transformer-impl hf, which is too low by as much",
     [](const ModelSpec&, const StepConfig& c) {
       return of_titan(c) && c.memory.kernels == Kernels::compiled &&
              c.precision.fp8 == Fp8Recipe::rowwise;
     }},
    {"--transformer-impl torchtitan or torchtune, --attn eager, math or efficient",
     "its layers call scaled_dot_product_attention, for cuDNN's and flash attention",
     "use --attn cudnn, flash or auto",
     [](const ModelSpec&, const StepConfig& c) {
       const Attention a = c.run.attention;
       return own(c) && a != Attention::automatic && a != Attention::flash && a != Attention::cudnn;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string(" --attn ") + to_option(c.run.attention));
     }},
    {"--transformer-impl torchtune for gemma2, --attn other than auto",
     "its attention is written out, scores and masks, and calls no kernel of attention",
     "use --attn auto, or --transformer-impl hf",
     [](const ModelSpec& m, const StepConfig& c) {
       return own(c) && model::layer_forms(m, c).caps_hidden &&
              c.run.attention != Attention::automatic;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string(" --attn ") + to_option(c.run.attention));
     }},
    {"--transformer-impl torchtitan or torchtune, a packed row, images, --dropout P or "
     "--compute-dtype fp32",
     "its layers' masks, encoders, dropout and attention in fp32 are not planned", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return own(c) && (c.run.packing > 0 || c.run.images > 0 || c.run.dropout > 0.0 ||
                         c.precision.compute_dtype == DType::f32);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, c.run.packing > 0     ? " --packing " + std::to_string(c.run.packing)
                      : c.run.images > 0    ? " --images " + std::to_string(c.run.images)
                      : c.run.dropout > 0.0 ? " --dropout " + std::to_string(c.run.dropout)
                                            : " --compute-dtype fp32");
     }},
    {"--transformer-impl torchtitan --autocast, a mixture of experts",
     "its experts then cast rows and weights for each product, which is not planned", with_hf,
     [](const ModelSpec& m, const StepConfig& c) {
       return of_titan(c) && c.precision.autocast && model::layer_forms(m, c).padded_experts;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return with(c, std::string(" --autocast ") + autocast_option(c) + " for " + m.family);
     }},
    {"--transformer-impl torchtitan or torchtune, --position-ids",
     "positions that a batch gives are planned of transformers' tables alone", with_hf,
     [](const ModelSpec&, const StepConfig& c) { return own(c) && c.run.position_ids; },
     [](const ModelSpec&, const StepConfig& c) { return with(c, " --position-ids"); }},
    {"--transformer-impl torchtitan --lora, --adapter METHOD or --quantize",
     "TorchTitan 0.2.2 trains no adapters", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return of_titan(c) && (c.adapters.used() || c.adapters.quantize != Quantization::none);
     }},
    {"--transformer-impl torchtune --quantize",
     "its NF4 is torchao's NF4Tensor, --quantize is bitsandbytes'", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       return own(c) && c.adapters.quantize != Quantization::none;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, " --quantize"); }},
    {"--transformer-impl torchtitan or torchtune, --cp-method ulysses or --shard other than none, "
     "ddp, fsdp2 and hsdp:N",
     "neither runs on DeepSpeed or with FSDP's first version", with_hf,
     [](const ModelSpec&, const StepConfig& c) {
       const bool of_pytorch = c.layout.shard == Sharding::none ||
                               c.layout.shard == Sharding::ddp || c.layout.gathers();
       return own(c) && (c.layout.ulysses() || !of_pytorch);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, c.layout.ulysses() ? std::string(" --cp-method ulysses")
                                         : " --shard " + shard_option(c));
     }},
};

}  // namespace

extern const ExclusionGroup layer_exclusions;
const ExclusionGroup layer_exclusions{"--transformer-impl", of_layers};

}  // namespace ac_advisor::passes
