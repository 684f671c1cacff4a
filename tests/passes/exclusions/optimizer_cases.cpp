// Refused: loss scaling, optimizers, master weights and averages.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--param-dtype fp16 --compute-dtype bf16, or bf16 and fp16",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.compute_dtype = DType::f16;
     },
     "--param-dtype bf16 --autocast fp16"},
    {"--grad-scaler --param-dtype fp16",
     [](auto&, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "use --autocast fp16"},
    {"--grad-scaler --lora RANK --lora-dtype bf16",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dtype = DType::bf16;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       c.precision.compute_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "use --lora-dtype fp32"},
    {"--grad-scaler or fp16, --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero2);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
     },
     "--param-dtype fp16 --shard zero2"},
    {"--grad-scaler --optimizer-in-backward",
     [](auto&, StepConfig& c) { c.optimizer.grad_scaler = c.optimizer.in_backward = true; },
     "checks all gradients"},
    {"--grad-scaler, --pp N or --tp T",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler --pp 2"},
    {"--grad-scaler --cuda-graph",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::step;
       c.optimizer.grad_scaler = true;
     },
     "whether gradients were finite"},
    {"fp16 --quantize HOW",
     [](auto&, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
       c.adapters.quantize = Quantization::nf4;
     },
     "--param-dtype fp16 --quantize nf4"},
    {"fp16, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       m.moe.emplace();
     },
     "--param-dtype fp16 for"},
    {"--grad-scaler or fp16, ac-trainer",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler: planned for PyTorch"},
    {"--grad-scaler or fp16, an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler of an imported graph"},
    {"--optimizer of another kind than adamw, adamw-foreach or sgd, --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::lion;
       c.layout.shard = Sharding::zero2;
       c.layout.world = 2;
     },
     "--optimizer lion --shard zero2"},
    {"--optimizer adamw-8bit, paged-adamw, paged-adamw-8bit or lion, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::adamw_8bit;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "--optimizer adamw-8bit --shard fsdp2"},
    {"--optimizer muon, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::muon;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "--optimizer muon --shard fsdp2"},
    {"--optimizer muon --grad-scaler",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::muon;
       c.optimizer.grad_scaler = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       c.precision.compute_dtype = DType::f16;
     },
     "two optimizers"},
    {"--optimizer adafactor, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::adafactor;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "rows and columns"},
    {"--master-weights --param-dtype fp32",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "need no copies"},
    {"--master-weights --param-dtype fp16",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
     },
     "its loss is scaled, and what the scaler "},
    {"--master-weights, an optimizer other than adamw",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.kind = Optimizer::sgd;
     },
     "--master-weights --optimizer sgd"},
    {"--master-weights --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       sharded(c, Sharding::zero1);
     },
     "masters in any case"},
    {"--master-weights --offload parameters, optimizer or gradients",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       on_host(c);
     },
     "on the device"},
    {"--master-weights --grad-scaler",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.grad_scaler = true;
     },
     "what the scaler does with this optimizer"},
    {"--master-weights --cuda-graph",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "step counter"},
    {"--master-weights --gpu cpu",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.device.gpu = "cpu";
     },
     "GPUs alone"},
    {"--master-weights, ac-trainer",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--ema --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.optimizer.ema = true;
       c.layout.shard = Sharding::zero1;
       c.layout.world = 2;
     },
     "no average of its own"},
};

}  // namespace

std::span<const Case> optimizer_cases() { return cases; }

}  // namespace ac_advisor::test
