// Refused: layers in FP8.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--fp8 delayed", [](auto&, StepConfig& c) { c.precision.fp8 = Fp8Recipe::delayed; },
     "no delayed scaling"},
    {"--fp8 RECIPE, layers whose weights are [in, out]",
     [](model::ModelSpec& m, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       m.input_first = true;
     },
     "nothing would be in FP8"},
    {"--fp8 mx --autocast, or --param-dtype fp32 or fp16 without fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.precision.param_dtype = DType::f32;
       c.precision.autocast = true;
     },
     "without autocast"},
    {"--fp8 mx --kernels compiled",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.memory.kernels = Kernels::compiled;
     },
     "compiled MX layers are not planned"},
    {"--fp8 mx, batch x seq no multiple of 32",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.run.batch = 1;
       c.run.seq = 48;
     },
     "--fp8 mx --batch 1 --seq 48"},
    {"--fp8-all-gather without --fp8 tensorwise --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
     },
     "FSDP2's"},
    {"--fp8-all-gather, several pipeline stages per rank",
     [](model::ModelSpec& m, StepConfig& c) {
       m = untied_model(8);
       c.memory.hold_output = false;
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.pp = 2;
       c.layout.world = 4;
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 2;
     },
     "each stage's scales would be reduced by "},
    {"--fp8 RECIPE, batch x seq no multiple of 16",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.run.batch = 1;
       c.run.seq = 40;
     },
     "--batch 1 --seq 40"},
    {"--fp8 RECIPE --compute-dtype fp32 or fp16",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "torch._scaled_mm's products are planned "},
    {"--fp8 RECIPE --compile-unit model",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
       c.memory.compile_unit = CompileUnit::model;
     },
     "such layers in a graph of the whole mode"},
    {"--fp8 RECIPE --tp T, parts of layers that are no multiples of 16",
     [](model::ModelSpec& m, StepConfig& c) {
       m.intermediate = 2 * 24;
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.layout.tp = c.layout.world = 2;
     },
     "needs a multiple of 16"},
    {"--fp8 RECIPE --cuda-graph",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "captures"},
    {"--fp8 RECIPE, ac-trainer",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
};

}  // namespace

std::span<const Case> float8_cases() { return cases; }

}  // namespace ac_advisor::test
