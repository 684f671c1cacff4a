// Refused: pipelines.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--pp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.world = 3;
     },
     "--pp 2 --world 3: the world must be divisible by N (times T of --tp)"},
    {"--pp N --grad-accum M, M below N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.run.grad_accum = 1;
     },
     "--pp 2 --pp-schedule 1f1b --grad-accum 1: a pipeline's micro-batches"},
    {"--pp N --pp-schedule interleaved:V or zb1 --grad-accum M, no multiple of its rounds",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 5;  // two rounds
     },
     "--pp 2 --pp-schedule interleaved:2 --grad-accum 5"},
    {"--pp N of a model of too few blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp = c.layout.world = c.run.grad_accum = 7;
     },
     "--pp 7 --pp-schedule 1f1b: 7 stages of 4 blocks"},
    {"--pp-layers of another sum or number",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_layers = {2, 1};
     },
     "--pp 2 --pp-schedule 1f1b --pp-layers 2,1: 2 stages of 4 blocks"},
    {"--pp-rank R, R of N or more",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_rank = 2;
     },
     "--pp 2 --pp-rank 2: a pipeline's ranks are 0 to N - 1"},
    {"--pp --framework torchtitan, a model with tied embeddings",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.tied_embeddings = true;
       c.runtime.framework = "torchtitan";
     },
     "--pp 2 for llama: the first and the last stage"},
    {"--pp, a model whose blocks need more than hidden states",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.embedding_dropout = 0.1;
     },
     "--pp 2 for llama: stages hand on hidden states alone"},
    {"--pp, --shard ddp or zeroN",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.shard = Sharding::ddp;
       c.layout.world = 4;
     },
     "--pp 2 --shard ddp"},
    {"--pp-schedule interleaved:V or zb1:V, V above 3, --shard fsdp2 or hsdp:N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.layers = 8;
       m.window.assign(8, 0);
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 4;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 4;
     },
     "--pp 2 --pp-schedule interleaved:4 --shard fsdp2"},
    {"--pp N --pp-schedule dualpipev --grad-accum M, M below 2 N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_schedule = PipelineSchedule::dual_pipe_v;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 3;
     },
     "--pp 2 --pp-schedule dualpipev --grad-accum 3: ScheduleDualPipeV needs"},
    {"--pp-schedule zb1, zbv or dualpipev, --ac of any kind",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.memory.ac = AcMode::full;
     },
     "--pp 2 --pp-schedule zb1 --ac full"},
    {"--pp-schedule zb1, zbv or dualpipev, --kernels fused or compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "--pp 2 --pp-schedule zb1 --kernels fused"},
    {"--pp-schedule zb1, zbv or dualpipev, --cp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.layout.cp = 2;
       c.layout.world = 4;
       c.layout.shard = Sharding::fsdp2;
     },
     "a ring's backward in two parts is not pl"},
    {"--pp-schedule zb1, zbv or dualpipev, --tp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.layout.tp = 2;
       c.layout.world = 4;
     },
     "--pp 2 --pp-schedule zb1: how DTensors' gradients wait"},
    {"--pp-schedule zb1, zbv or dualpipev, a mixture of experts, delta nets, LayerNorm or FP8",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       m.norm = model::Norm::layer;
     },
     "a backward in two parts of such layers i"},
    {"--pp-schedule zbv or dualpipev, a model with tied embeddings",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.tied_embeddings = true;
       c.layout.pp_schedule = PipelineSchedule::zbv;
       c.layout.pp_chunks = 2;
     },
     "--pp 2 --pp-schedule zbv for llama: the first and the last stage are of one rank"},
    {"--pp-schedule zb1, zbv or dualpipev, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--pp 2 --pp-schedule zb1: planned for PyTorch, not run by the trainer"},
    {"--pp-schedule zb1 --framework torchtitan",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.runtime.framework = "torchtitan";
     },
     "--pp 2 --pp-schedule zb1: TorchTitan 0.2.2"},
    {"--pp, a loss other than ce, ce-no-upcast or ce-compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--pp 2 --loss lc-ce"},
    {"--pp --hold-output",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.hold_output = true;
     },
     "use --no-hold-output"},
    {"--pp --autocast or --output-dtype fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.wide_output = true;
     },
     "leave them out"},
    {"--pp --ac budget:SIZE",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.ac = AcMode::budget;
       c.memory.ac_arg = 1 << 30;
     },
     "use full, selective or every:K"},
    {"--pp --adapter METHOD",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       by(c, AdapterMethod::ia3);
     },
     "use --lora RANK"},
    {"--pp --lora-targets NAMES, a rank whose stages have none of them",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.adapters.rank = 8;
       c.adapters.targets = "layers.0.self_attn.q_proj";
     },
     "name layers of each stage's blocks, such as --lora-targets all-linear"},
    {"--pp --lora, adapters of experts or their router",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.family = "mixtral";
       m.moe.emplace();
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "--pp 2 for mixtral"},
    {"--pp --lora --quantize int8",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.adapters.rank = 8;
       c.adapters.quantize = Quantization::int8;
     },
     "use --quantize nf4"},
    {"--pp --no-sync",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.no_sync = true;
     },
     "leave --no-sync out"},
    {"--pp --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "use --cuda-graph off"},
};

}  // namespace

std::span<const Case> pipeline_cases() { return cases; }

}  // namespace ac_advisor::test
