// Transformer Engine 2.14's FusedAdam(master_weights=True), pytorch/optimizers/fused_adam.py: for
// each parameter two moments and a copy in fp32, updated together; the step counter is a number of
// the host's. The kernel writes the copy and the parameter, and allocates nothing.
#include <algorithm>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

/// common/multi_tensor/multi_tensor_apply.cuh: a launch takes so many tensors of five lists, and so
/// many chunks; pytorch/optimizers/multi_tensor_apply.py: of so many elements.
constexpr std::int32_t tensors_of_launch = 30, chunks_of_launch = 320;
constexpr std::int64_t chunk_elements = 2048 * 32;

std::int32_t launches(const OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors) {
  std::int32_t count = 0, tensor = 0, chunk = 0;
  for (const OptimizedTensor& t : tensors) {
    ++tensor;
    const std::int64_t chunks = (ops.numel(t.parameter) + chunk_elements - 1) / chunk_elements;
    for (std::int64_t i = 0; i < chunks; ++i) {
      const bool full = tensor == tensors_of_launch && i + 1 == chunks;
      if (++chunk < chunks_of_launch && !full) continue;
      ++count;
      chunk = 0;
      tensor = i + 1 == chunks ? 0 : 1;  // what is left of it goes with the next launch
    }
  }
  return count + (chunk > 0 ? 1 : 0);
}

/// A flag of the kernel's, then of each parameter two moments and the copy, in this order.
void append_master_weights(OptimizerOps& ops) {
  OptimizerOps::Values all{ops.state({1}, DType::i32, ops.tensors().front().parameter)};
  std::vector<OptimizedTensor> stepped;  // without a gradient: states alone
  for (const OptimizedTensor& t : ops.tensors()) {
    OptimizerOps::Values own{t.parameter};
    for (int state = 0; state < 3; ++state)
      own.push_back(ops.state(ops.shape(t.parameter), DType::f32, t.parameter));
    if (t.gradient == ir::no_id) continue;
    own.push_back(t.gradient);
    stepped.push_back(t);
    all.insert(all.end(), own.begin(), own.end());
  }
  ops.range();
  ops.op({&all}, {}, launches(ops, stepped));
}

using model::ModelSpec;

bool used(const StepConfig& c) { return c.optimizer.master_weights; }

constexpr Exclusion exclusions_of_masters[] = {
    {"--master-weights --param-dtype fp32", "parameters in fp32 need no copies in fp32",
     "leave it out, or use --param-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.precision.param_dtype == DType::f32;
     }},
    {"--master-weights --param-dtype fp16",
     "its loss is scaled, and what the scaler does with this optimizer is not planned",
     "use --param-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.precision.param_dtype == DType::f16;
     }},
    {"--master-weights, an optimizer other than adamw",
     "it is planned as Transformer Engine's FusedAdam keeps them", "use --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.optimizer.kind != Optimizer::adamw;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--master-weights --optimizer ") + to_option(c.optimizer.kind);
     }},
    {"--master-weights --shard zero1 or zero2",
     "DeepSpeed's partition is of fp32 masters in any case", "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.layout.zero(); }},
    {"--master-weights --offload parameters, optimizer or gradients",
     "Transformer Engine's kernel steps what is on the device", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.offload != Offload::none &&
              c.memory.offload != Offload::activations;
     }},
    {"--master-weights --grad-scaler", "what the scaler does with this optimizer is not planned",
     "use bf16, which needs none",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.optimizer.grad_scaler; }},
    {"--master-weights --cuda-graph",
     "its step counter is a number of the host's, which a graph would repeat",
     "leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--master-weights --gpu cpu", "Transformer Engine runs on GPUs alone", "choose a GPU",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.device.gpu == "cpu"; }},
    {"--master-weights, ac-trainer", "planned for PyTorch, not run by the trainer", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
};

}  // namespace

extern const Pass master_weights_pass;
const Pass master_weights_pass{"master-weights",
                               Stage::step,
                               "fp32 copies of the parameters, with moments and the update of both",
                               used,
                               [](StepProgram& step, const ModelSpec&, const StepConfig&) {
                                 OptimizerOps ops(step);
                                 append_master_weights(ops);
                               },
                               exclusions_of_masters,
                               Of::transformers};

}  // namespace ac_advisor::passes
