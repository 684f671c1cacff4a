// Refused: parts of a sequence.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--cp N --framework megatron or deepspeed",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.runtime.framework = "megatron";
     },
     "--cp 2 --framework megatron"},
    {"--cp N --world W",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.world = 3;
     },
     "--cp 2 --world 3"},
    {"--cp N --seq S, S no multiple of 2 N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.seq = 34;
     },
     "--cp 2 --seq 34"},
    {"--cp N --cp-rank R, R of N or more",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.cp_rank = 2;
     },
     "--cp 2 --cp-rank 2"},
    {"--cp N --tp T --seq S, S / N no multiple of T",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.kv_heads = m.heads;
       c.layout.tp = 4;
       c.layout.world = 8;
       c.run.seq = 20;
     },
     "--cp 2 --tp 4 --seq 20"},
    {"--cp N --shard hsdp:M, M no multiple of N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 3;
       c.layout.world = 12;
     },
     "--cp 2 --shard hsdp:3"},
    {"--cp N, --shard other than fsdp2 and hsdp:M",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.shard = Sharding::ddp;
     },
     "ranks that share a sequence have gradien"},
    {"--cp N, attention other than scaled_dot_product_attention of rotated heads",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.position_scaled_queries = true;
     },
     "PyTorch's ring is scaled_dot_product_attention's"},
    {"--cp N --cp-method ulysses, a model whose layers are not like Llama's",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       c.layout.cp_method = CpMethod::ulysses;
       m.fused_qkv = true;
     },
     "other attention, masks and positions of "},
    {"--cp N --kernels fused --framework automodel",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.runtime.framework = "automodel";
       c.memory.kernels = Kernels::fused;
     },
     "turns Liger's kernels off"},
    {"--cp N, a sliding window within --seq, --framework other than automodel",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.window.assign(static_cast<std::size_t>(m.layers), 8);
     },
     "takes no mask"},
    {"--cp N, --attn other than auto, flash or cudnn",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.attention = Attention::eager;
     },
     "--cp 2 --attn eager"},
    {"--cp N --compute-dtype fp32, PyTorch",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "--cp 2 --compute-dtype fp32"},
    {"--cp N --packing, --position-ids or --images",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.position_ids = true;
     },
     "positions of their own"},
    {"--cp N --cp-method ulysses --seq S, S no multiple of N",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.run.seq = 33;
     },
     "--cp 2 --cp-method ulysses --seq 33"},
    {"--cp N --cp-method ulysses, heads that N does not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       by_ulysses(c);
       m.heads = 5;
     },
     "--cp 2 --cp-method ulysses, 5 heads"},
    {"--cp N --cp-method ulysses, heads of keys and values",
     [](model::ModelSpec& m, StepConfig& c) {
       by_ulysses(c);
       m.heads = 6;
       m.kv_heads = 3;
     },
     "--cp 2 --cp-method ulysses, 3 heads of keys and values"},
    {"--cp N --cp-method ulysses --framework torchtitan, torchtune or automodel",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.runtime.framework = "torchtitan";
     },
     "--cp 2 --cp-method ulysses --framework torchtitan"},
    {"--cp N --cp-method ulysses --cuda-graph",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--cp 2 --cp-method ulysses --cuda-graph"},
    {"--cp N --cp-method ulysses --tp T",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.layout.tp = 2;
     },
     "--cp 2 --cp-method ulysses --tp 2"},
};

}  // namespace

std::span<const Case> context_cases() { return cases; }

}  // namespace ac_advisor::test
