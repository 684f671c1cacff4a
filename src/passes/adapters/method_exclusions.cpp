// What PEFT's methods beside LoRA cannot be combined with, and why.
#include <algorithm>
#include <string>

#include "ac_advisor/ir/derivation.hpp"
#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "targets.hpp"

namespace ac_advisor::passes {
namespace {

using model::AdapterPlace;
using model::ModelSpec;

bool used(const StepConfig& c) { return c.adapters.of_another_method(); }
bool at(const StepConfig& c, AdapterPlace place) {
  return used(c) && model::row(c.adapters.method).place == place;
}

std::string with(const StepConfig& c, const std::string& other) {
  return given_adapters(c) + " " + other;
}
std::string of_family(const ModelSpec& m, const StepConfig& c) {
  return given_adapters(c) + " for " + m.family;
}

/// Whether the widths, in and out, of a layer that gets adapters are such.
template <class Such>
bool any_adapted(const ModelSpec& m, const StepConfig& c, const Such& such) {
  const auto all = adapted_widths(m, c);
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& one) { return such(one.first, one.second); });
}

constexpr Exclusion of_methods[] = {
    {"--adapter METHOD --lora RANK", "a model has adapters of one kind", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.adapters.rank > 0; },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, "--lora " + std::to_string(c.adapters.rank));
     }},
    {"--adapter METHOD --shard zero1 or zero2",
     "DeepSpeed casts all of the module to bf16, and such adapters in it are not planned yet",
     "use --shard ddp or fsdp2, or --lora RANK",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.layout.zero() && !c.layout.zero3();
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--shard " + shard_option(c)); }},
    {"--adapter METHOD, --lora-dropout, --dora or --lora-dtype bf16",
     "they are LoRA's; adapters of other methods are as PEFT makes them, in fp32",
     "leave them out, or use --lora RANK",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) &&
              (c.adapters.dropout > 0.0 || c.adapters.dora || c.adapters.dtype != DType::f32);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, c.adapters.dropout > 0.0 ? "--lora-dropout"
                      : c.adapters.dora        ? "--dora"
                                               : "--lora-dtype bf16");
     }},
    {"--adapter METHOD of no linear layers --lora-targets", "norms, or tokens, are trained",
     "leave --lora-targets out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && !adapts_layers(c) && !c.adapters.targets.empty();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, "--lora-targets " + c.adapters.targets);
     }},
    {"--adapter ln-tuning, a family of whose norms PEFT knows no names",
     "PEFT asks for target_modules where it does not know the family",
     "plan another method, such as --adapter ia3",
     [](const ModelSpec& m, const StepConfig& c) {
       return at(c, AdapterPlace::norms) &&
              model::default_targets(c.adapters.method, m.family).empty();
     },
     of_family},
    {"--adapter METHOD other than ia3, layers whose weights are [in, out]",
     "other methods over transformers' Conv1D are not planned", "use --adapter ia3, or --lora RANK",
     [](const ModelSpec& m, const StepConfig& c) {
       return at(c, AdapterPlace::linear_layers) && c.adapters.method != AdapterMethod::ia3 &&
              m.input_first;
     },
     of_family},
    {"--adapter glora:RANK, layers with biases", "its terms of a bias are not planned",
     "plan another method, such as --adapter lokr:8",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::glora &&
              (m.qkv_bias || m.output_bias || m.mlp_bias);
     },
     of_family},
    {"--adapter oft:BLOCK, a layer of whose inputs BLOCK is no divisor",
     "PEFT takes another block then", "give a divisor, such as oft:32",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::oft &&
              any_adapted(m, c, [&](std::int64_t in, std::int64_t) {
                return c.adapters.size < 2 || in % c.adapters.size != 0;
              });
     },
     of_family},
    {"--adapter road:VARIANT other than 1 and 2", "road_4 is not planned", "use road:1 or road:2",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::road && c.adapters.size > 2;
     },
     [](const ModelSpec&, const StepConfig& c) { return given_adapters(c); }},
    {"--adapter road:VARIANT, a layer whose outputs are no groups of 64",
     "PEFT refuses it (group_size)", "name others by --lora-targets",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::road &&
              any_adapted(m, c, [](std::int64_t, std::int64_t out) { return out % 64 != 0; });
     },
     of_family},
    {"--adapter miss:RANK:MINI, a layer of whose outputs MINI is no divisor",
     "the matrix could not be repeated along them", "give a divisor, such as miss:64:64",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::miss && c.adapters.factor > 0 &&
              any_adapted(m, c, [&](std::int64_t, std::int64_t out) {
                return out % c.adapters.factor != 0;
              });
     },
     of_family},
    {"--adapter trainable-tokens:N, more than the vocabulary has", "a token is trained once",
     "give fewer",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.method == AdapterMethod::trainable_tokens && c.adapters.size > m.vocab;
     },
     of_family},
    {"--adapter prefix-tuning:TOKENS, --ac other than none",
     "a checkpoint's second forward would add its keys to those that the cache has; PEFT refuses "
     "it",
     "use --ac none, or --adapter prompt-tuning:TOKENS",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.prefix_tokens() > 0 && c.memory.ac != AcMode::none;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--ac " + ac_option(c)); }},
    {"--adapter prefix-tuning:TOKENS, sliding windows, scores with a bias, learned positions, or "
     "attention other than auto and flash",
     "keys of a cache beside such scores are not planned",
     "use --adapter prompt-tuning:TOKENS, or --attn auto",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.prefix_tokens() > 0 &&
              (m.alibi || m.always_masked || m.eager_attention_only || m.position_table > 0 ||
               std::any_of(m.window.begin(), m.window.end(), [](auto w) { return w > 0; }) ||
               (c.run.attention != Attention::automatic && c.run.attention != Attention::flash));
     },
     of_family},
    {"--adapter prefix-tuning:TOKENS, more than 32 blocks",
     "what all blocks' keys are split into is planned for 32", "plan fewer layers",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.adapters.prefix_tokens() > 0 &&
              m.layers > static_cast<std::int64_t>(ir::Derivation::most_outputs);
     },
     of_family},
    {"--adapter METHOD --cuda-graph", "its captures are not planned", "leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.cuda_graph != CudaGraph::off;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--cuda-graph"); }},
    {"--adapter METHOD --framework torchtune", "torchtune has LoRA and DoRA alone",
     "use --framework hf",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.framework == "torchtune";
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--framework torchtune"); }},
    {"--adapter METHOD, ac-trainer", "the trainer runs LoRA and DoRA alone", "plan it instead",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     },
     [](const ModelSpec&, const StepConfig& c) { return given_adapters(c) + ", ac-trainer"; }},
};

}  // namespace

extern const ExclusionGroup method_exclusions;
const ExclusionGroup method_exclusions{"adapter methods", of_methods};

}  // namespace ac_advisor::passes
