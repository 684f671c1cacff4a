// Refused: what waits on the host, and an optimizer in backward.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--offload parameters, --shard other than fsdp1, fsdp2, hsdp:N or zero3",
     [](auto&, StepConfig& c) {
       on_host(c);
       sharded(c, Sharding::ddp);
     },
     "--offload parameters --shard ddp: it is FSDP's CPU offloading"},
    {"--offload parameters, ac-trainer",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--offload parameters"},
    {"--offload parameters --gpu cpu",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.device.gpu = "cpu";
     },
     "choose a GPU"},
    {"--offload parameters, an optimizer other than adamw, adamw-foreach, sgd and sgd-momentum",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.optimizer.kind = Optimizer::adamw_8bit_torchao;
     },
     "--offload parameters --optimizer adamw-8bit-torchao"},
    {"--offload parameters --ema or --grad-scaler",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.optimizer.ema = true;
     },
     "leave one of them out"},
    {"--offload parameters --cuda-graph",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "copies from and to the host"},
    {"--offload activations, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the CPU's alone"},
    {"--offload activations --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.device.gpu = "cpu";
     },
     "choose a GPU"},
    {"--offload activations --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "not captured"},
    {"--offload optimizer or gradients --world N, N above 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::ddp);
     },
     "--offload optimizer --world 8"},
    {"--offload optimizer or gradients --framework deepspeed --world 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.framework = "deepspeed";
     },
     "--offload optimizer --framework deepspeed"},
    {"--offload optimizer or gradients, an optimizer other than adamw and sgd",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.kind = Optimizer::lion;
     },
     "the others' steps under CPUOffloadOptimi"},
    {"--offload gradients --grad-accum N, N above 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::gradients;
       c.run.grad_accum = 2;
     },
     "does not accumulate"},
    {"--offload optimizer or gradients --clip-grad NORM",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.clip_grad = 1.0;
     },
     "clipped later"},
    {"--offload optimizer or gradients --grad-scaler",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.grad_scaler = true;
     },
     "before the scaler"},
    {"--offload optimizer or gradients --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.in_backward = true;
     },
     "both of them hook"},
    {"--offload optimizer or gradients --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "not captured"},
    {"--offload optimizer or gradients --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.device.gpu = "cpu";
     },
     "no device to leave"},
    {"--offload optimizer or gradients, ac-trainer",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--optimizer-in-backward --master-weights",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.in_backward = true;
     },
     "steps all parameters at once"},
    {"--optimizer-in-backward --grad-accum N, N above 1",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.run.grad_accum = 2;
     },
     "--grad-accum 2: gradients that are dropped"},
    {"--optimizer-in-backward --clip-grad NORM",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.optimizer.clip_grad = 1.0;
     },
     "all gradients at once"},
    {"--optimizer-in-backward, --shard other than none",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
     },
     "--optimizer-in-backward --shard ddp"},
    {"--optimizer-in-backward, --optimizer other than adamw or sgd",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.optimizer.kind = Optimizer::adafactor;
     },
     "--optimizer-in-backward --optimizer adafactor"},
};

}  // namespace

std::span<const Case> offload_cases() { return cases; }

}  // namespace ac_advisor::test
