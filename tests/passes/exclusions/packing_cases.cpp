// Refused: packed rows and position ids.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void packed_by_automodel(StepConfig& c, std::int64_t documents) {
  c.run.packing = documents;
  c.run.attention = Attention::flash;
  c.runtime.framework = "automodel";
}

const Case cases[] = {
    {"--packing DOCS", [](auto&, StepConfig& c) { c.run.packing = 65536; }, "from 0 (not packed)"},
    {"--packing DOCS, more documents than tokens", [](auto&, StepConfig& c) { c.run.packing = 65; },
     "--packing 65 --batch 2 --seq 32"},
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
     "the scratch of a CPU's attention with a "},
    {"--packing DOCS --tp T --attn auto",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.run.packing = 4;
     },
     "--packing 4 --tp 2 --attn auto"},
    {"--packing DOCS --framework automodel, --attn other than flash",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.framework = "automodel";
     },
     "--packing 4 --framework automodel --attn auto"},
    {"--packing 1 --framework automodel", [](auto&, StepConfig& c) { packed_by_automodel(c, 1); },
     "but one document"},
    {"--packing DOCS --tp T or --pp N, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.run.packing = 4;
       c.device.gpu = "cpu";
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--packing 4 --pp 2"},
    {"--packing DOCS --cuda-graph",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "the host's"},
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
     "a wrapper's positions with images are no"},
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
