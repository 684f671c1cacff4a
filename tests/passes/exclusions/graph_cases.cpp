// Refused: imported graphs.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--offload of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.offload = Offload::activations;
     },
     "what its nodes save on the host is not p"},
    {"--fp8 of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "before it is captured"},
    {"--master-weights of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.master_weights = true;
     },
     "of its capture"},
    {"--batch B --seq S of an imported graph, sizes that its capture does not scale to",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.run.batch = 77;
     },
     "--batch 77 --seq"},
    {"--param-dtype or --autocast of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "capture it again with --dtype"},
    {"--loss other than ce of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.loss = LossKind::ce_no_upcast;
     },
     "capture the model with that loss"},
    {"--kernels fused of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "with fused kernels in it"},
    {"--attn, --dropout, --capacity-factor, --packing, --position-ids or --images of an imported "
     "graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.run.attention = Attention::flash;
     },
     "its forward is the one"},
    {"--lora or --quantize of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.adapters.rank = 8;
     },
     "PEFT's adapters"},
    {"--tp, --cp or --pp of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.layout.tp = c.layout.world = 2;
     },
     "how its modules would be split"},
    {"--shard zero1, zero2 or zero3 of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       sharded(c, Sharding::zero2);
     },
     "--shard zero2 of an imported graph"},
    {"--fsdp-unit segment or torchtitan of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       sharded(c, Sharding::fsdp2);
       c.layout.fsdp_unit = FsdpUnit::segment;
     },
     "use --fsdp-unit block"},
    {"--shard of an imported graph, parameters of several dtypes",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {16}}, {.dtype = graph::DType::float32, .shape = {4}}});
       sharded(c, Sharding::ddp);
     },
     "of several are not planned yet"},
    {"--shard fsdp2 or hsdp:N of an imported graph, a parameter of no dimension",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {4}}, {.shape = {}}});
       sharded(c, Sharding::fsdp2);
     },
     "a dimension of one"},
    {"--shard ddp of an imported graph, a trained parameter without a gradient",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {4}}});
       sharded(c, Sharding::ddp);
     },
     "freeze it in make_model"},
    {"--optimizer-in-backward of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.in_backward = true;
     },
     "not planned for graphs yet"},
    {"--grad-compression of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression.kind = Compression::bf16;
     },
     "not planned for graphs yet"},
    {"--ac of an imported graph without blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       m.layers = 0;
       c.memory.ac = AcMode::full;
     },
     "--blocks REGEX"},
    {"--ac attention, --ac modules or --ac-scope submodule of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.ac = AcMode::attention;
     },
     "what its modules are to each other"},
    {"an imported graph, --gpu cpu",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.device.gpu = "cpu";
     },
     "name a GPU"},
    {"an imported graph, run by ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the trainer runs"},
    {"--cuda-graph of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "its memory pool"},
};

}  // namespace

std::span<const Case> graph_cases() { return cases; }

}  // namespace ac_advisor::test
