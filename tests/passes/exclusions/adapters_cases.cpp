// Refused: LoRA and quantized weights.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void of_mixtral(model::ModelSpec& m, StepConfig& c, const char* targets) {
  m.family = "mixtral";
  m.moe.emplace();
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
  c.adapters.rank = 8;
  c.adapters.targets = targets;
}

const Case cases[] = {
    {"--lora RANK", [](auto&, StepConfig& c) { c.adapters.rank = -1; }, "--lora -1"},
    {"--lora RANK or --adapter METHOD, a family for which PEFT has no targets",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "olmo2";
       c.adapters.rank = 8;
     },
     "endings of its layers' names"},
    {"--lora-targets NAMES, one that no linear layer of a block ends in",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,proj";  // PEFT's endings are whole parts of a name
     },
     "\"proj\""},
    {"--lora-targets all-linear, phimoe and llama4",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       m.moe->sparse_mixer = true;
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "they return more than one tensor"},
    {"--lora-targets NAMES, one of experts' gate and up without the other",
     [](model::ModelSpec& m, StepConfig& c) { of_mixtral(m, c, "q_proj,w1"); }, "name both"},
    {"--lora-dropout or --dora, adapters of experts or their router",
     [](model::ModelSpec& m, StepConfig& c) {
       of_mixtral(m, c, "w1,w2,w3");
       c.adapters.dropout = 0.1;
     },
     "--lora 8 of the experts of mixtral"},
    {"--lora RANK of experts or their router, --ep or --kernels compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       of_mixtral(m, c, "all-linear");
       c.memory.kernels = Kernels::compiled;
     },
     "--lora-targets q_proj,k_proj,v_proj,o_proj"},
    {"--lora RANK of experts alone, --shard zero3 --ac none",
     [](model::ModelSpec& m, StepConfig& c) {
       of_mixtral(m, c, "w1,w2,w3");
       c.layout.shard = Sharding::zero3;
       c.layout.world = 2;
     },
     "adapt attention, too"},
    {"--framework automodel --lora RANK --fp8",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.adapters.rank = 8;
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "nothing is left to train"},
    {"--framework automodel --lora RANK --ac selective, without --lora-dropout",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.adapters.rank = 8;
       c.adapters.dtype = DType::bf16;
       c.memory.ac = AcMode::selective;
     },
     "has been mutated"},
    {"--framework automodel --lora RANK, adapters in another dtype than the computation",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.adapters.rank = 8;
       c.adapters.dtype = DType::f32;
     },
     "give --lora-dtype"},
    {"--framework automodel --lora RANK --autocast",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.adapters.rank = 8;
       c.adapters.dtype = DType::bf16;
       c.precision.autocast = true;
     },
     "use --autocast none"},
    {"--lora RANK, a mixture of experts, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
       c.runtime.kind = Runtime::ac_trainer;
     },
     "frozen experts"},
    {"--lora RANK, a family with latent attention, and qwen3_next",
     [](model::ModelSpec& m, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       m.latent.emplace();
     },
     "plan it without"},
    {"--lora RANK --shard zero1, zero2 or zero3, ac-trainer",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero2);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--lora RANK --shard zero1 or zero2, adapters in another dtype than the computation",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero2);
       c.adapters.dtype = DType::f32;
     },
     "DeepSpeed casts all of the module"},
    {"--lora-dropout P", [](auto&, StepConfig& c) { c.adapters.dropout = 1.0; }, "0.05"},
    {"--quantize int8 --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) { quantized_shards(c, Quantization::int8); },
     "LLM.int8()'s weights keep their scales b"},
    {"--quantize HOW --shard fsdp2 or hsdp:N, --param-dtype fp32 or --kbit-prepare",
     [](auto&, StepConfig& c) {
       quantized_shards(c, Quantization::nf4);
       c.adapters.kbit_prepare = true;
     },
     "--quantize nf4 --shard fsdp2 --kbit-prepare"},
    {"--dora --lora-dropout P",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.adapters.dropout = 0.1;
     },
     "--lora-dropout 0"},
    {"--dora --quantize int8 or nf4-double",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.adapters.quantize = Quantization::int8;
     },
     "--dora --quantize int8"},
    {"--lora RANK --ema",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.optimizer.ema = true;
     },
     "leave --ema out"},
    {"--dora --quantize nf4 --shard fsdp2 or hsdp:N, ac-trainer",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.adapters.quantize = Quantization::nf4;
       c.runtime.kind = Runtime::ac_trainer;
       sharded(c, Sharding::fsdp2);
     },
     "a whole weight's codes alone"},
    {"--quantize HOW, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.runtime.kind = Runtime::ac_trainer;
       c.adapters.quantize = Quantization::nf4;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
};

}  // namespace

std::span<const Case> adapters_cases() { return cases; }

}  // namespace ac_advisor::test
