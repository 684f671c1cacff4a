// Refused: layers in FP8.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--fp8 delayed", [](auto&, StepConfig& c) { c.precision.fp8 = Fp8Recipe::delayed; },
     "no delayed scaling"},
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
     "compiled MX layers"},
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
    {"--fp8-all-gather --optimizer other than adamw or adamw-foreach",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       sharded(c, Sharding::fsdp2);
       c.optimizer.kind = Optimizer::sgd;
     },
     "other optimizers"},
    {"--fp8-all-gather --ema",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       sharded(c, Sharding::fsdp2);
       c.optimizer.ema = true;
     },
     "an average"},
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
     "scales would be reduced"},
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
     "bf16 alone"},
    {"--fp8 RECIPE --lora",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
     },
     "adapters beside"},
    {"--fp8 RECIPE --compile-unit model",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
       c.memory.compile_unit = CompileUnit::model;
     },
     "graph of the whole model"},
    {"--fp8 RECIPE --kernels compiled --autocast or --shard ddp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 8;
     },
     "without either"},
    {"--fp8-all-gather --kernels compiled --tp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       c.memory.kernels = Kernels::compiled;
       c.layout.shard = Sharding::fsdp2;
       c.layout.tp = 2;
       c.layout.world = 4;
     },
     "of ranks that share layers"},
    {"--fp8 RECIPE --kernels compiled of another family",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "stablelm";
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
     },
     "compiled layers"},
    {"--fp8 RECIPE --kernels fused",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::fused;
     },
     "fused kernels"},
    {"--fp8 mx --tp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.layout.tp = c.layout.world = 2;
     },
     "MX layers whose ranks have parts"},
    {"--fp8 RECIPE --tp T, parts of layers that are no multiples of 16",
     [](model::ModelSpec& m, StepConfig& c) {
       m.intermediate = 2 * 24;
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.layout.tp = c.layout.world = 2;
     },
     "needs a multiple of 16"},
    {"--fp8 mx --pp",
     [](model::ModelSpec& m, StepConfig& c) {
       m.tied_embeddings = false;
       c.memory.hold_output = false;
       c.precision.fp8 = Fp8Recipe::mx;
       c.layout.pp = c.layout.world = 2;
       c.run.grad_accum = 2;
     },
     "stages of MX"},
    {"--fp8 RECIPE --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       sharded(c, Sharding::zero1);
     },
     "--shard zero1"},
    {"--fp8 RECIPE --ac attention or budget:SIZE",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.ac = AcMode::attention;
     },
     "--ac attention"},
    {"--fp8 RECIPE --ac-scope submodule",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.ac = AcMode::full;
       c.memory.scope = AcScope::submodule;
     },
     "within blocks"},
    {"--fp8 RECIPE --offload",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.offload = Offload::activations;
     },
     "such layers save"},
    {"--fp8 RECIPE --packing DOCS",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.run.packing = 4;
     },
     "packed rows"},
    {"--fp8 RECIPE --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.optimizer.in_backward = true;
     },
     "order of its frees"},
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
    {"--fp8 RECIPE, experts, an encoder of images, or another family",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "gptj";
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "of gptj"},
};

}  // namespace

std::span<const Case> float8_cases() { return cases; }

}  // namespace ac_advisor::test
