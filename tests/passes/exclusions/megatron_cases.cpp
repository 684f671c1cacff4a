// Refused: Megatron-core.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void recomputing(StepConfig& c, std::initializer_list<LayerPart> parts) {
  c.memory.ac = AcMode::modules;
  for (LayerPart part : parts) c.memory.ac_arg |= std::int64_t{1} << static_cast<int>(part);
}

const Case cases[] = {
    {"--transformer-impl, a model that is no GPT of its",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.moe.emplace();
     },
     "deepseek_v3"},
    {"--transformer-impl local, latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       m.latent.emplace();
     },
     "stand alone there"},
    {"--transformer-impl --attn flash, latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.attention = Attention::flash;
       m.latent.emplace();
     },
     "narrower than their keys"},
    {"--transformer-impl --fp8, latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       m.latent.emplace();
     },
     "not planned yet"},
    {"--transformer-impl local, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       m.window.assign(static_cast<std::size_t>(m.layers), 2);
     },
     "Megatron-core's own attention"},
    {"--transformer-impl --cp N, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.world = c.layout.cp = 2;
       c.layout.shard = Sharding::ddp;
       c.precision.reduce_dtype = DType::f32;
       c.run.attention = Attention::flash;
       m.window.assign(static_cast<std::size_t>(m.layers), 2);
     },
     "no windows"},
    {"--transformer-impl, a sliding window within --seq, --dropout with cuDNN's attention",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.dropout = 0.1;
       m.window.assign(static_cast<std::size_t>(m.layers), 2);
     },
     "without dropout"},
    {"--transformer-impl --seq N, a model with a table of positions",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.position_table = m.max_positions = 2;
     },
     "no more rows"},
    {"--transformer-impl --batch B --seq S",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.batch = c.run.seq = 1 << 16;
     },
     "more than 2^31 tokens"},
    {"--transformer-impl, a model of more than 4096 blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.layers = 5000;
     },
     "at most 4096"},
    {"--transformer-impl, --ac other than none, full, grouped:K, first:N, attention or "
     "modules:PARTS, or --ac-scope submodule",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.ac = AcMode::selective;
     },
     "--ac selective"},
    {"--transformer-impl --ac modules:moe_act, experts that are not grouped",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       recomputing(c, {LayerPart::moe_act});
     },
     "moe_grouped_gemm"},
    {"--transformer-impl --ac modules:mla_up_proj, a model without latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       recomputing(c, {LayerPart::mla_up_proj, LayerPart::core_attn});
     },
     "--ac modules:core_attn+mla_up_proj"},
    {"--transformer-impl --ac modules:mlp, an MLP with biases",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.mlp_bias = true;
       recomputing(c, {LayerPart::mlp});
     },
     "without end"},
    {"--transformer-impl --fp8 delayed --ac modules:layernorm or moe_act",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       recomputing(c, {LayerPart::layernorm});
     },
     "use --fp8 tensorwise"},
    {"--transformer-impl --ac modules:moe with moe_act or shared_experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       recomputing(c, {LayerPart::moe, LayerPart::shared_experts});
     },
     "not planned yet"},
    {"--transformer-impl --ac grouped:K that does not divide a stage's blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.layers = 4;
       c.memory.ac = AcMode::grouped;
       c.memory.ac_arg = 3;
     },
     "one past the last"},
    {"--transformer-impl, a loss other than ce or ce-compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--loss lc-ce"},
    {"--transformer-impl, --kernels other than fused",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.kernels = Kernels::eager;
     },
     "--kernels eager"},
    {"--transformer-impl, --shard other than none, ddp or zero1",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "--shard fsdp2"},
    {"--transformer-impl --reduce-dtype bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       sharded(c, Sharding::ddp);
     },
     "planned in fp32"},
    {"--transformer-impl, an optimizer other than adamw or adamw-foreach",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.kind = Optimizer::lion;
     },
     "--optimizer lion"},
    {"--transformer-impl local, --attn other than auto or eager",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       c.run.attention = Attention::flash;
     },
     "--transformer-impl local --attn flash"},
    {"--transformer-impl transformer_engine, --attn efficient, math or flash1",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.attention = Attention::math;
     },
     "--attn math"},
    {"--transformer-impl --no-grad-scaler in fp16, --grad-scaler in bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.grad_scaler = true;
     },
     "scales the loss of --fp16"},
    {"--transformer-impl, --param-dtype or --compute-dtype fp32, --autocast",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "use --param-dtype bf16"},
    {"--transformer-impl --hold-output or --output-dtype fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.hold_output = true;
     },
     "computed inside the model"},
    {"--transformer-impl --packing DOCS",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.packing = 2;
     },
     "PackedSeqParams"},
    {"--transformer-impl --position-ids",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.position_ids = true;
     },
     "carry positions in any case"},
    {"--transformer-impl --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.images = 1;
     },
     "models with images"},
    {"--transformer-impl --lora or --quantize",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.adapters.rank = 4;
     },
     "adapters are not planned"},
    {"--transformer-impl --ema, --optimizer-in-backward or --no-sync",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.ema = true;
     },
     "leave them out"},
    {"--transformer-impl --grad-compression",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.compression.kind = Compression::bf16;
     },
     "has no hooks"},
    {"--transformer-impl --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--cuda-graph off"},
    {"--transformer-impl --offload",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.offload = Offload::activations;
     },
     "cpu_offloading"},
    {"--transformer-impl, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the trainer has transformers' layers"},
    {"--transformer-impl --tp T --pp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = 2;
       c.layout.world = 3;
     },
     "--tp 2"},
    {"--transformer-impl --tp T, heads or MLP that T does not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = c.layout.world = 7;
     },
     "--tp 7"},
    {"--transformer-impl --tp T --seq S, S no multiple of T",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = c.layout.world = 2;
       c.run.seq = 15;
     },
     "--seq 15"},
    {"--transformer-impl --cp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.cp = 2;
       c.layout.world = 3;
     },
     "--cp 2"},
    {"--transformer-impl --cp N, --attn other than flash, or local layers",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.cp = c.layout.world = 2;
       c.layout.shard = Sharding::ddp;
       c.precision.reduce_dtype = DType::f32;
     },
     "--attn flash"},
    {"--transformer-impl --cp N --seq S, S no multiple of 2 N",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::transformer_engine;
       c.run.attention = Attention::flash;
       c.layout.cp = c.layout.world = 2;
       c.layout.shard = Sharding::ddp;
       c.precision.reduce_dtype = DType::f32;
       c.run.seq = 18;
     },
     "--cp 2 --seq 18"},
    {"--transformer-impl --optimizer-instances N that does not divide the ranks",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.world = 4;
       c.layout.shard = Sharding::zero1;
       c.precision.reduce_dtype = DType::f32;
       c.layout.optimizer_instances = 3;
     },
     "--optimizer-instances 3 --world 4"},
    {"--ep N or --etp T, a model without experts",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       over_experts(c, 2, 2);
     },
     "--ep 2: there is nothing to share"},
    {"--ep N --etp T --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 2, 3);
     },
     "--ep 2 --world 3"},
    {"--ep N that does not divide the experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 3, 3);
     },
     "--ep 3"},
    {"--etp T or --tp T that does not divide the experts' or the shared expert's width",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 1, 3);
       c.layout.etp = 3;
     },
     "--etp 3"},
    {"--transformer-impl --tp T --no-sp, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.layout.tp = c.layout.world = 2;
       c.layout.sequence_parallel = false;
     },
     "--tp 2 --no-sp"},
    {"--transformer-impl local, moe_grouped_gemm or moe_permute_fusion",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       m.moe->megatron->grouped = true;
     },
     "CUTLASS"},
    {"--transformer-impl, a mixture of experts in fp16",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "--param-dtype fp16"},
    {"--transformer-impl --capacity-factor F",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.capacity_factor = 2.0;
     },
     "--capacity-factor"},
    {"--transformer-impl --batch B --seq S, tokens that do not spread evenly over the experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.batch = 1;
       c.run.seq = 15;
     },
     "--seq 15"},
    {"--optimizer-instances N that does not divide the ranks of an expert",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 4, 4);
       c.layout.shard = Sharding::zero1;
       c.layout.optimizer_instances = 2;
     },
     "--ep 4 --optimizer-instances 2"},
    {"--transformer-impl --no-loss-parallel",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.loss_parallel = false;
     },
     "parts of the vocabulary"},
    {"--transformer-impl --pp N, blocks that do not go round",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {m.layers, 1};
     },
     "--pp 2"},
    {"--transformer-impl --pp N --pp-schedule gpipe, zb1, zbv or dualpipev",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.layout.pp_schedule = PipelineSchedule::gpipe;
     },
     "--pp-schedule gpipe"},
    {"--transformer-impl --pp N --grad-accum M, too few or uneven",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.run.grad_accum = 1;
     },
     "--grad-accum 1"},
    {"--transformer-impl --pp-rank R, R of N or more",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.layout.pp_rank = 2;
     },
     "0 to N - 1"},
    {"--transformer-impl local --fp8",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       c.precision.fp8 = Fp8Recipe::delayed;
     },
     "own layers have no FP8"},
    {"--transformer-impl --fp8 rowwise or mx, or --fp8-all-gather",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::rowwise;
     },
     "--fp8 rowwise"},
    {"--transformer-impl --fp8, sizes or tokens that are no multiples of 16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       m.intermediate = 168;
     },
     "intermediate_size 168"},
    {"--transformer-impl --master-weights",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.master_weights = true;
     },
     "in any case"},
};

}  // namespace

std::span<const Case> megatron_cases() { return cases; }

}  // namespace ac_advisor::test
