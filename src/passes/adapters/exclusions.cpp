// What adapters over a frozen base cannot be combined with, and why.
#include <string>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "targets.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool used(const StepConfig& c) { return c.adapters.used(); }
bool quantized(const StepConfig& c) { return c.adapters.quantized(); }
bool trained_here(const StepConfig& c) { return used(c) && c.runtime.kind == Runtime::ac_trainer; }
bool without_targets(const ModelSpec& m, const StepConfig& c) {
  return adapts_layers(c) && c.adapters.targets.empty() &&
         model::default_targets(c.adapters.method, m.family).empty() && !c.litgpt();
}

/// Its own layers, not in parts.
bool whole_of_automodel(const StepConfig& c) {
  return own_adapters_of_automodel(c) && c.layout.tp == 1;
}

std::string quantize_option(const StepConfig& c) {
  return std::string("--quantize ") + to_option(c.adapters.quantize);
}
std::string of_experts(const ModelSpec& m, const StepConfig& c) {
  return given_adapters(c) + " of the experts of " + m.family;
}
std::string with_sharding(const ModelSpec&, const StepConfig& c) {
  return given_adapters(c) + " --shard " + shard_option(c);
}

constexpr Exclusion of_adapters[] = {
    {"--lora RANK", "a rank is from 0 (no adapters) to 65536", "give one, such as 16",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.rank < 0 || c.adapters.rank > 65536;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--lora " + std::to_string(c.adapters.rank);
     }},
    {"--lora RANK or --adapter METHOD, a family for which PEFT has no targets",
     "PEFT asks for target_modules where it does not know the family",
     "name them by --lora-targets: endings of its layers' names, or all-linear", without_targets,
     [](const ModelSpec& m, const StepConfig& c) {
       return given_adapters(c) + " for " + m.family;
     }},
    {"--lora RANK, a family with latent attention, and qwen3_next",
     "adapters of their projections are not planned", "plan it without: --lora 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(c) &&
              (m.latent.has_value() || (m.delta && !model::class_facts(m.family).delta_apart));
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return given_adapters(c) + " for " + m.family;
     }},
    {"--adapter METHOD, gated delta nets",
     "how gradients come back to their projections is planned for LoRA alone", "use --lora RANK",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.delta && c.adapters.of_another_method();
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return given_adapters(c) + " for " + m.family;
     }},
    {"--lora-targets NAMES, one that no linear layer of a block ends in",
     "adapters go to linear layers of blocks; those of the embedding and the LM head are not "
     "planned",
     "use those that it has, or all-linear",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapts_layers(c) && !without_targets(m, c) && !unknown_target(m, c).empty();
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--lora-targets: \"" + unknown_target(m, c) + "\", where " + m.family + " has " +
              layer_list(m, c);
     }},
    {"--lora-targets all-linear, phimoe and llama4",
     "their routers are linear layers to PEFT, whose adapters of them fail: they return more than "
     "one tensor",
     "use --lora-targets q_proj,k_proj,v_proj,o_proj",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapts_layers(c) && c.adapters.targets == "all-linear" && m.moe &&
              (m.moe->sparse_mixer || m.moe->every_expert);
     },
     [](const ModelSpec& m, const StepConfig&) {
       return "--lora-targets all-linear for " + m.family;
     }},
    {"--lora-targets NAMES, one of experts' gate and up without the other",
     "transformers 5 has them in one tensor, and PEFT asks for both", "name both",
     [](const ModelSpec& m, const StepConfig& c) {
       const ExpertTargets t = adapted_experts(m, c);
       return t.gate != t.up;
     },
     [](const ModelSpec&, const StepConfig& c) { return "--lora-targets " + c.adapters.targets; }},
    {"--lora-dropout or --dora, adapters of experts or their router",
     "PEFT has neither of a parameter that no linear layer has", "leave them out, or name others",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapted_experts(m, c).any() && (c.adapters.dropout > 0.0 || c.adapters.dora);
     },
     of_experts},
    {"--lora RANK of experts or their router, --ep or --kernels compiled",
     "PEFT parametrizes experts' modules in each forward; what that does under these is not "
     "planned",
     "use --kernels eager, leave --ep out, or adapt attention alone: --lora-targets "
     "q_proj,k_proj,v_proj,o_proj",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapted_experts(m, c).any() &&
              (c.layout.ep > 1 || c.memory.kernels == Kernels::compiled);
     },
     of_experts},
    {"--lora RANK of experts alone, --shard zero3 --ac none",
     "backward reads the experts' weights when ZeRO 3 has let go of them: PyTorch's step ends with "
     "an error",
     "adapt attention, too, or use --ac full",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapted_experts(m, c).any() && c.layout.zero3() && c.memory.ac == AcMode::none &&
              adapted_widths(m, c).empty();
     },
     of_experts},
    {"--framework automodel --lora RANK --fp8",
     "torchao's Float8Linear takes the place of each layer, its adapter with it "
     "(_transformers/infrastructure.py, _apply_peft_and_lower_precision): nothing is left to train",
     "leave --fp8 out, or use --framework hf",
     [](const ModelSpec&, const StepConfig& c) {
       return c.runtime.framework == "automodel" && c.adapters.rank > 0 && c.precision.float8();
     }},
    {"--framework automodel --lora RANK --ac selective, without --lora-dropout",
     "its layers add in place to products that the checkpoint keeps: PyTorch ends with \"Tensor "
     "cached during selective activation checkpoint has been mutated\"",
     "use --ac full",
     [](const ModelSpec&, const StepConfig& c) {
       return whole_of_automodel(c) && c.memory.ac == AcMode::selective && !c.runtime.force &&
              c.adapters.dropout == 0.0;
     }},
    {"--framework automodel --lora RANK, adapters in another dtype than the computation",
     "its layers cast neither their input nor their result: PyTorch refuses the product",
     "give --lora-dtype the dtype of the computation, such as --lora-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       const bool gathered = c.layout.gathers();
       return whole_of_automodel(c) && !c.precision.autocast &&
              lora_dtype(c) != (gathered ? c.precision.compute_dtype : c.precision.param_dtype);
     }},
    {"--framework automodel --lora RANK --autocast",
     "what autocast makes of its functions is not planned", "use --autocast none",
     [](const ModelSpec&, const StepConfig& c) {
       return whole_of_automodel(c) && c.precision.autocast;
     }},
    {"--lora RANK, a mixture of experts, ac-trainer", "the trainer was not run with frozen experts",
     "plan it instead",
     [](const ModelSpec& m, const StepConfig& c) { return trained_here(c) && m.moe.has_value(); }},
    {"--lora RANK --shard zero1, zero2 or zero3, ac-trainer",
     "planned for PyTorch, not run by the trainer", "use ddp or fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return trained_here(c) && used(c) && c.layout.zero();
     },
     with_sharding},
    {"--lora RANK --shard zero1 or zero2, adapters in another dtype than the computation",
     "DeepSpeed casts all of the module to bf16 (engine.py, _configure_distributed_model)",
     "leave --lora-dtype and --param-dtype out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.layout.zero() && !c.layout.zero3() && !trained_here(c) &&
              (c.adapters.dtype != DType::bf16 || c.precision.param_dtype != DType::bf16);
     },
     with_sharding},
    {"--lora-dropout P", "a probability of at least 0 and below 1", "give one, such as 0.05",
     [](const ModelSpec&, const StepConfig& c) {
       return !(c.adapters.dropout >= 0.0 && c.adapters.dropout < 1.0);
     }},
    {"--dora --lora-dropout P", "the base's product is then made once more, of what is left",
     "plan it without dropout: --lora-dropout 0",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.adapters.dora && c.adapters.dropout > 0.0;
     }},
    {"--dora --quantize nf4 --shard fsdp2 or hsdp:N, ac-trainer",
     "the trainer makes a norm of a whole weight's codes alone", "plan it instead",
     [](const ModelSpec&, const StepConfig& c) {
       return trained_here(c) && c.adapters.dora && quantized(c) && c.layout.gathers();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--dora " + quantize_option(c) + " --shard " + shard_option(c);
     }},
    {"--dora --quantize int8 or nf4-double",
     "the whole weight that its norm is made of is planned for nf4 alone",
     "use --quantize nf4, or none",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.adapters.dora &&
              (c.adapters.quantize == Quantization::int8 ||
               c.adapters.quantize == Quantization::nf4_double);
     },
     [](const ModelSpec&, const StepConfig& c) { return "--dora " + quantize_option(c); }},
    {"--quantize int8 --shard fsdp2 or hsdp:N",
     "LLM.int8()'s weights keep their scales beside them, which fully_shard does not shard: not "
     "planned",
     "use --quantize nf4, or ddp",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.quantize == Quantization::int8 && c.layout.gathers();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return quantize_option(c) + " --shard " + shard_option(c);
     }},
    {"--quantize HOW --shard fsdp2 or hsdp:N, --param-dtype fp32 or --kbit-prepare",
     "packed weights are stored in the dtype of all that is gathered with them "
     "(bnb_4bit_quant_storage), which is planned as bf16",
     "use --param-dtype bf16 --no-kbit-prepare",
     [](const ModelSpec&, const StepConfig& c) {
       return quantized(c) && c.layout.gathers() &&
              (c.precision.param_dtype != DType::bf16 || c.adapters.kbit_prepare);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return quantize_option(c) + " --shard " + shard_option(c) +
              (c.adapters.kbit_prepare ? " --kbit-prepare" : " --param-dtype fp32");
     }},
    {"--lora RANK --ema", "whether adapters alone are averaged is the loop's to say",
     "leave --ema out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.optimizer.ema; }},
    {"--quantize HOW, ac-trainer on a GPU", "the trainer's packed weights are the CPU's alone",
     "use --gpu cpu",
     [](const ModelSpec&, const StepConfig& c) {
       return trained_here(c) && quantized(c) && c.device.gpu != "cpu";
     },
     [](const ModelSpec&, const StepConfig& c) {
       return quantize_option(c) + " --gpu " + c.device.gpu;
     }},
};

}  // namespace

extern const ExclusionGroup adapter_exclusions;
const ExclusionGroup adapter_exclusions{"adapters", of_adapters};

}  // namespace ac_advisor::passes
