// What torchao's float8 layers cannot be combined with, or were not compared with, and why.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool used(const StepConfig& c) { return c.precision.float8(); }
bool mx(const StepConfig& c) { return c.precision.fp8 == Fp8Recipe::mx; }
std::string fp8(const StepConfig& c) { return std::string("--fp8 ") + to_option(c.precision.fp8); }

/// Whose steps were compared with torchao's (tests/oracle/float8_peaks.json, mx_peaks.json).
constexpr std::string_view families[] = {
    "llama",    "mistral", "qwen2",      "qwen3",     "phi3",        "olmo2",
    "olmo3",    "granite", "smollm3",    "gemma",     "gemma3_text", "starcoder2",
    "gpt_neox", "phi",     "stablelm",   "nemotron",  "cohere",      "cohere2",
    "glm",      "glm4",    "ministral3", "internlm2", "minicpm"};

/// Whose compiled blocks were (tests/oracle/float8_compile_peaks.json).
constexpr std::string_view compiled_families[] = {
    "llama", "mistral", "qwen2", "qwen3",      "smollm3", "granite",  "phi3",
    "olmo2", "gemma",   "glm4",  "ministral3", "minicpm", "internlm2"};

bool in_compiled_blocks(const StepConfig& c) {
  return used(c) && c.memory.kernels == Kernels::compiled;
}

constexpr Exclusion of_float8[] = {
    {"--fp8 delayed", "torchao 0.18 has no delayed scaling any more",
     "use --fp8 tensorwise or rowwise, whose scales are of the tensor itself, or "
     "--framework megatron --transformer-impl transformer_engine",
     [](const ModelSpec&, const StepConfig& c) { return c.precision.fp8 == Fp8Recipe::delayed; }},
    {"--fp8 mx --autocast, or --param-dtype fp32 or fp16 without fsdp2 or hsdp:N",
     "its casts take bf16, and MXFP8Linear is given its weight as it is",
     "use --param-dtype bf16 without autocast",
     [](const ModelSpec&, const StepConfig& c) {
       return mx(c) && (c.precision.autocast ||
                        (c.precision.param_dtype != DType::bf16 && !c.layout.gathers()));
     }},
    {"--fp8 mx --kernels compiled", "compiled MX layers were not compared", "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return mx(c) && c.memory.kernels == Kernels::compiled;
     }},
    {"--fp8 mx, batch x seq no multiple of 32",
     "the weights' gradients sum over the tokens, in blocks of 32 with a scale each",
     "use such a length",
     [](const ModelSpec&, const StepConfig& c) {
       return mx(c) && c.run.batch * c.run.seq % 32 != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--fp8 mx --batch " + std::to_string(c.run.batch) + " --seq " +
              std::to_string(c.run.seq);
     }},
    {"--fp8-all-gather without --fp8 tensorwise --shard fsdp2 or hsdp:N",
     "enable_fsdp_float8_all_gather is FSDP2's, of weights with one scale each",
     "use --fp8 tensorwise --shard fsdp2 or hsdp:N, or leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather &&
              (c.precision.fp8 != Fp8Recipe::tensorwise || !c.layout.gathers());
     }},
    {"--fp8-all-gather --optimizer other than adamw or adamw-foreach",
     "other optimizers were not compared with torchao's weights", "use one of these",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather && c.optimizer.kind != Optimizer::adamw &&
              c.optimizer.kind != Optimizer::adamw_foreach;
     }},
    {"--fp8-all-gather --ema", "an average of torchao's weights was not compared",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather && c.optimizer.ema;
     }},
    {"--fp8-all-gather, several pipeline stages per rank",
     "each stage's scales would be reduced by themselves, which was not compared",
     "use --pp-schedule 1f1b or gpipe, or leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather && c.layout.pp > 1 && c.layout.pp_chunks > 1;
     }},
    {"--fp8 RECIPE, batch x seq no multiple of 16",
     "torch._scaled_mm sums over the tokens in the weights' gradients, and needs a multiple of 16",
     "use such a length",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.run.batch * c.run.seq % 16 != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp8(c) + " --batch " + std::to_string(c.run.batch) + " --seq " +
              std::to_string(c.run.seq);
     }},
    {"--fp8 RECIPE --compute-dtype fp32 or fp16", "layers were compared in bf16 alone",
     "use --compute-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.precision.compute_dtype != DType::bf16;
     }},
    {"--fp8 RECIPE --lora", "adapters beside such layers were not compared",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.adapters.used(); },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " " + given_adapters(c); }},
    {"--fp8 RECIPE --compile-unit model",
     "such layers in a graph of the whole model were not compared", "use --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return in_compiled_blocks(c) && c.memory.compile_unit == CompileUnit::model;
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --compile-unit model"; }},
    {"--fp8 RECIPE --kernels compiled --autocast or --shard ddp",
     "compiled layers in fp8 were compared without either", "use --shard fsdp2, or --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return in_compiled_blocks(c) && (c.precision.autocast || c.layout.shard == Sharding::ddp);
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --kernels compiled"; }},
    {"--fp8-all-gather --kernels compiled --tp",
     "weights that FSDP2 gathers in 8 bits were not compared in compiled blocks of ranks "
     "that share layers",
     "leave --fp8-all-gather out, or use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.fp8_all_gather && in_compiled_blocks(c) && c.layout.tp > 1;
     }},
    {"--fp8 RECIPE --kernels compiled of another family",
     "its compiled layers in fp8 were not compared",
     "use --kernels eager, or a llama, mistral, qwen, phi3, olmo2, granite, gemma or glm4",
     [](const ModelSpec& m, const StepConfig& c) {
       return in_compiled_blocks(c) &&
              std::find(std::begin(compiled_families), std::end(compiled_families), m.family) ==
                  std::end(compiled_families);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return fp8(c) + " --kernels compiled of " + m.family;
     }},
    {"--fp8 RECIPE --kernels fused", "fused kernels beside such layers were not compared",
     "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.kernels == Kernels::fused;
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --kernels fused"; }},
    {"--fp8 mx --tp", "MX layers whose ranks have parts were not compared",
     "use --fp8 tensorwise, --fp8 rowwise or --tp 1",
     [](const ModelSpec&, const StepConfig& c) { return mx(c) && c.layout.tp > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return "--fp8 mx --tp " + std::to_string(c.layout.tp);
     }},
    {"--fp8 RECIPE --tp T, parts of layers that are no multiples of 16",
     "torch._scaled_mm sums over a rank's part, and needs a multiple of 16", "use a smaller T",
     [](const ModelSpec& m, const StepConfig& c) {
       const std::int64_t parts[] = {m.heads * m.head_dim, m.kv_heads * m.head_dim, m.intermediate};
       return used(c) && c.layout.tp > 1 &&
              std::any_of(std::begin(parts), std::end(parts),
                          [&](std::int64_t size) { return size / c.layout.tp % 16 != 0; });
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return fp8(c) + " --tp " + std::to_string(c.layout.tp) + " of " +
              std::to_string(m.heads * m.head_dim) + ", " +
              std::to_string(m.kv_heads * m.head_dim) + " and " + std::to_string(m.intermediate) +
              " features";
     }},
    {"--fp8 mx --pp", "stages of MX layers were not compared", "use --pp 1",
     [](const ModelSpec&, const StepConfig& c) { return mx(c) && c.layout.pp > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return "--fp8 mx --pp " + std::to_string(c.layout.pp);
     }},
    {"--fp8 RECIPE --shard zero1, zero2 or zero3", "such shards were not compared",
     "use --shard fsdp2, hsdp:N or ddp",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.layout.zero(); },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --shard " + shard_option(c); }},
    {"--fp8 RECIPE --ac attention or budget:SIZE", "these regions were not compared",
     "use --ac none, full or selective",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && (c.memory.ac == AcMode::attention || c.memory.ac == AcMode::budget);
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --ac " + ac_option(c); }},
    {"--fp8 RECIPE --ac-scope submodule", "checkpoints within blocks were not compared",
     "use --ac-scope block",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.ac != AcMode::none && c.memory.scope == AcScope::submodule;
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --ac-scope submodule"; }},
    {"--fp8 RECIPE --offload", "what such layers save was not compared", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.offload != Offload::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp8(c) + " --offload " + to_option(c.memory.offload);
     }},
    {"--fp8 RECIPE --packing DOCS", "packed rows were not compared", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.run.packing > 0; },
     [](const ModelSpec&, const StepConfig& c) {
       return fp8(c) + " --packing " + std::to_string(c.run.packing);
     }},
    {"--fp8 RECIPE --optimizer-in-backward", "the order of its frees was not compared",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.optimizer.in_backward; },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --optimizer-in-backward"; }},
    {"--fp8 RECIPE --cuda-graph", "PyTorch's captures of such layers are not planned",
     "use --cuda-graph off",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.cuda_graph != CudaGraph::off;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp8(c) + " --cuda-graph " + to_option(c.runtime.cuda_graph);
     }},
    {"--fp8 RECIPE, ac-trainer", "planned for PyTorch, not run by the trainer",
     "plan it instead, or measure without --fp8",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c); }},
    {"--fp8 RECIPE, experts, an encoder of images, or another family",
     "its layers were not compared with torchao's",
     "plan it without --fp8, or a llama, mistral, qwen, phi, olmo, granite, gemma, glm or cohere",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(c) &&
              (m.moe || m.tower ||
               std::find(std::begin(families), std::end(families), m.family) == std::end(families));
     },
     [](const ModelSpec& m, const StepConfig& c) { return fp8(c) + " of " + m.family; }},
};

}  // namespace

extern const ExclusionGroup float8_exclusions;
const ExclusionGroup float8_exclusions{"fp8", of_float8};

}  // namespace ac_advisor::passes
