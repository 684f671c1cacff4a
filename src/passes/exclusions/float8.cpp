// What torchao's float8 layers cannot be combined with, and why.
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

bool in_compiled_blocks(const StepConfig& c) {
  return used(c) && c.memory.kernels == Kernels::compiled;
}

constexpr Exclusion of_float8[] = {
    {"--fp8 delayed", "torchao 0.18 has no delayed scaling any more",
     "use --fp8 tensorwise or rowwise, whose scales are of the tensor itself, or "
     "--framework megatron --transformer-impl transformer_engine",
     [](const ModelSpec&, const StepConfig& c) { return c.precision.fp8 == Fp8Recipe::delayed; }},
    {"--fp8 RECIPE, layers whose weights are [in, out]",
     "torchao converts nn.Linear, and these are transformers' Conv1D: nothing would be in FP8",
     "leave --fp8 out",
     [](const ModelSpec& m, const StepConfig& c) { return used(c) && m.input_first; },
     [](const ModelSpec& m, const StepConfig& c) { return fp8(c) + " for " + m.family; }},
    {"--fp8 mx --autocast, or --param-dtype fp32 or fp16 without fsdp2 or hsdp:N",
     "its casts take bf16, and MXFP8Linear is given its weight as it is",
     "use --param-dtype bf16 without autocast",
     [](const ModelSpec&, const StepConfig& c) {
       return mx(c) && (c.precision.autocast ||
                        (c.precision.param_dtype != DType::bf16 && !c.layout.gathers()));
     }},
    {"--fp8 mx --kernels compiled", "compiled MX layers are not planned", "use --kernels eager",
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
    {"--fp8-all-gather, several pipeline stages per rank",
     "each stage's scales would be reduced by themselves, which is not planned",
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
    {"--fp8 RECIPE --compute-dtype fp32 or fp16",
     "torch._scaled_mm's products are planned in bf16 alone", "use --compute-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.precision.compute_dtype != DType::bf16;
     }},
    {"--fp8 RECIPE --compile-unit model",
     "such layers in a graph of the whole model are not planned", "use --compile-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return in_compiled_blocks(c) && c.memory.compile_unit == CompileUnit::model;
     },
     [](const ModelSpec&, const StepConfig& c) { return fp8(c) + " --compile-unit model"; }},
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
};

}  // namespace

extern const ExclusionGroup float8_exclusions;
const ExclusionGroup float8_exclusions{"fp8", of_float8};

}  // namespace ac_advisor::passes
