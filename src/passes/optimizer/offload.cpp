// torchao 0.18's CPUOffloadOptimizer (torchao/optim/cpu_offload.py): of each parameter of 4096
// elements or more the host has a pinned copy, a pinned gradient, an optimizer and its states. A
// hook copies each gradient to the host as it is accumulated, on a stream of its own
// (offload_gradients: and drops it); step() steps them one after another and copies each parameter
// back. Smaller parameters are stepped on the device.
#include <algorithm>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"
#include "passes/sharding/gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using ir::ValueId;
using model::ModelSpec;

constexpr std::int64_t minimal_size = 4096;  // elements

bool applies(const StepConfig& c) { return keeps_states_on_host(c); }
bool drops(const StepConfig& c) { return c.memory.offload == Offload::gradients; }

class ToHost final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  [[nodiscard]] bool keeps_gradients() const override { return true; }

  void begin_backward() override { s_.on_host.clear(); }

  void on_gradient(std::size_t index, ValueId gradient) override {
    const Parameter& parameter = s_.parameters[index];
    if (p_.value(parameter.value).shape.numel() < minimal_size) return;
    emit(OpKind::copy_to_host, {parameter.module.block, ir::Module::optimizer}, {gradient}, {});
    s_.on_host.push_back({parameter.value, gradient});
  }

  void end_backward() override {
    if (!drops(c_)) return;
    for (Parameter& parameter : s_.parameters)
      if (p_.value(parameter.value).shape.numel() >= minimal_size) parameter.gradient = ir::no_id;
  }
};

void copy_gradients(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  ToHost(step, config).rewrite();
}

/// step(): the device's own, then parameter by parameter in the order of the hooks.
void append(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  OptimizerOps ops(step);
  std::vector<OptimizedTensor> small;
  for (const OptimizedTensor& t : step.optimized)
    if (ops.numel(t.parameter) < minimal_size) small.push_back(t);
  if (!small.empty() && config.optimizer.kind == Optimizer::adamw)
    append_adamw_of(ops, small, config.optimizer);
  else if (!small.empty())
    append_sgd_of(ops, small);
  OptimizerOps::Values parameters;
  for (const OptimizedTensor& t : step.on_host) {
    step_on_host(ops, t, config.optimizer);
    const OptimizerOps::Values parameter{t.parameter};
    ops.op({&parameter}, {}, 0, OpKind::copy_from_host);
    parameters.push_back(t.parameter);
  }
  ops.hold(parameters);  // stream.synchronize()
}

constexpr Exclusion exclusions_of_states_on_host[] = {
    {"--offload optimizer or gradients --world N, N above 1",
     "torchao's CPUOffloadOptimizer is for one GPU: its hooks copy gradients before ranks reduce "
     "them",
     "use --world 1, --shard zero1, zero2 or zero3 with --offload optimizer, or --offload "
     "parameters --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.layout.world > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--offload ") + to_option(c.memory.offload) + " --world " +
              std::to_string(c.layout.world);
     }},
    {"--offload optimizer or gradients --framework deepspeed --world 1",
     "DeepSpeed's optimizer on the host is planned from two ranks on, and this one is torchao's",
     "use --world 2 or more with zero1 or zero2, or --framework hf",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.framework == "deepspeed";
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--offload ") + to_option(c.memory.offload) + " --framework deepspeed";
     }},
    {"--offload optimizer or gradients, an optimizer other than adamw and sgd",
     "the others' steps under CPUOffloadOptimizer are not planned", "use one of these two",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.optimizer.kind != Optimizer::adamw &&
              c.optimizer.kind != Optimizer::sgd;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--offload ") + to_option(c.memory.offload) + " --optimizer " +
              to_option(c.optimizer.kind);
     }},
    {"--offload gradients --grad-accum N, N above 1",
     "gradients that have left are overwritten by the next micro-batch's: torchao's "
     "offload_gradients does not accumulate",
     "use --offload optimizer, or --grad-accum 1",
     [](const ModelSpec&, const StepConfig& c) { return drops(c) && c.run.grad_accum > 1; }},
    {"--offload optimizer or gradients --clip-grad NORM",
     "gradients are copied to the host as they are made: clipped later, they are not what is "
     "stepped with",
     "use --clip-grad 0, or --offload parameters",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.optimizer.clip_grad > 0; }},
    {"--offload optimizer or gradients --grad-scaler",
     "gradients are copied to the host before the scaler divides them",
     "use bf16, which needs none",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.optimizer.grad_scaler; }},
    {"--offload optimizer or gradients --optimizer-in-backward",
     "both of them hook each parameter's gradient", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.optimizer.in_backward; }},
    {"--offload optimizer or gradients --cuda-graph",
     "copies from and to the host are not captured", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--offload optimizer or gradients --gpu cpu", "there is no device to leave", "choose a GPU",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.device.gpu == "cpu"; }},
    {"--offload optimizer or gradients, ac-trainer", "planned for PyTorch, not run by the trainer",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
};

}  // namespace

bool keeps_states_on_host(const StepConfig& c) {
  return !c.layout.zero() &&
         (c.memory.offload == Offload::optimizer || c.memory.offload == Offload::gradients);
}

extern const Pass gradients_to_host_pass, optimizer_offload_pass;
const Pass gradients_to_host_pass{"gradients-to-host",
                                  Stage::micro_batch,
                                  "each gradient is copied to the host as it is made",
                                  applies,
                                  copy_gradients,
                                  exclusions_of_states_on_host,
                                  Of::transformers};
const Pass optimizer_offload_pass{
    "optimizer-offload",
    Stage::step,
    "parameters stepped on the host, one after another, and copied back",
    applies,
    append,
    {},
    Of::transformers};

}  // namespace ac_advisor::passes
