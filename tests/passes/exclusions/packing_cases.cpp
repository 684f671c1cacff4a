// Refused: packed rows and position ids.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--packing DOCS", [](auto&, StepConfig& c) { c.run.packing = 65536; }, "from 0 (not packed)"},
    {"--packing DOCS, more documents than tokens", [](auto&, StepConfig& c) { c.run.packing = 65; },
     "--packing 65 --batch 2 --seq 32"},
    {"--packing DOCS, sliding windows",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.window[1] = 4096;
     },
     "--packing 4 for llama: windows"},
    {"--packing DOCS, latent attention, attention sinks, shared keys and values, scores that are "
     "capped, in fp32 or always masked",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.latent.emplace();
     },
     "Llama's attention"},
    {"--packing DOCS, positions other than a rotary table's of the batch",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.position_table = m.max_positions = 1024;
     },
     "Llama's positions"},
    {"--packing DOCS --attn cudnn, efficient, math or flash1",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::cudnn;
     },
     "--packing 4 --attn cudnn"},
    {"--packing DOCS --attn flash, stablelm and nemotron",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::flash;
       m.family = "nemotron";
     },
     "--packing 4 for nemotron"},
    {"--packing DOCS --attn flash --compute-dtype fp32",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::flash;
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "bf16 and fp16 alone"},
    {"--packing DOCS --gpu cpu",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.device.gpu = "cpu";
     },
     "--packing 4 --gpu cpu"},
    {"--packing DOCS --tp T or --pp N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.run.packing = 4;
     },
     "--packing 4 --pp 2"},
    {"--packing DOCS --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero2);
       c.run.packing = 4;
     },
     "--packing 4 --shard zero2"},
    {"--packing DOCS --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.memory.kernels = Kernels::fused;
     },
     "--packing 4 --kernels fused"},
    {"--packing DOCS --cuda-graph",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "the host's"},
    {"--packing DOCS --quantize int8",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,v_proj";
       c.adapters.quantize = Quantization::int8;
     },
     "use --quantize nf4 or none"},
    {"--packing DOCS --loss ce-compiled or chunked-logits:N",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 4;
     },
     "--packing 4 --loss chunked-logits:4"},
    {"--packing DOCS --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.packing = 4;
     },
     "images of several documents"},
    {"--packing DOCS, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "use --gpu cpu"},
    {"--position-ids, positions other than a rotary table's of the batch",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.position_ids = true;
       m.position_table = m.max_positions = 1024;
     },
     "Llama's positions"},
    {"--position-ids --packing DOCS",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.run.packing = 4;
     },
     "always carries its positions"},
    {"--position-ids --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.position_ids = true;
     },
     "positions with images"},
    {"--position-ids --tp T or --pp N",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.position_ids = true;
       in_stages(m, c);
     },
     "--position-ids --pp 2"},
    {"--position-ids --kernels compiled",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.memory.kernels = Kernels::compiled;
     },
     "use --kernels eager or fused"},
    {"--position-ids, ac-trainer",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "measure without --position-ids"},
};

}  // namespace

std::span<const Case> packing_cases() { return cases; }

}  // namespace ac_advisor::test
