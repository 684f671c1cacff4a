// Refused: what is planned of PyTorch 2.11's steps alone.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void later(StepConfig& c) {
  c.runtime.torch = TorchVersion::v2_15;
  c.device.gpu = "h100-80gb";
}

const Case cases[] = {
    {"--torch 2.15 --gpu cpu",
     [](auto&, StepConfig& c) {
       later(c);
       c.device.gpu = "cpu";
     },
     "--torch 2.15 --gpu cpu: its CPU"},
    {"--torch 2.15 --grad-compression HOW",
     [](auto&, StepConfig& c) {
       later(c);
       sharded(c, Sharding::ddp);
       c.compression = {.kind = Compression::powersgd, .rank = 2};
     },
     "new process group"},
    {"--torch 2.15 --no-sync, gradients reduced in a wider dtype than they are computed in",
     [](auto&, StepConfig& c) {
       later(c);
       sharded(c, Sharding::fsdp2);
       c.run.grad_accum = 2;
       c.layout.no_sync = true;
       c.precision.reduce_dtype = DType::f32;
     },
     "--no-sync --reduce-dtype fp32"},
    {"--torch 2.15 --cuda-graph HOW",
     [](auto&, StepConfig& c) {
       later(c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--cuda-graph step: cuBLAS"},
};

}  // namespace

std::span<const Case> torch_cases() { return cases; }

}  // namespace ac_advisor::test
