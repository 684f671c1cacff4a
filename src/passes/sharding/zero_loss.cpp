// How DeepSpeed scales the loss that backward begins at, deepspeed/runtime/engine.py (v0.19.8),
// backward: by the micro-batches of a step, where the loop leaves that to it, and by its scaler,
// though in bf16 that is 1 (fp16/loss_scaler.py, scale_loss). Autograd undoes each.
#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {
namespace {

constexpr ir::ModulePath in_loss{-1, ir::Module::loss};

bool applies(const StepConfig& config) {
  return config.layout.zero() && config.runtime.kind == Runtime::pytorch &&
         config.device.gpu != "cpu";
}

/// transformers' Trainer and TRL's, which divide it themselves (scale_wrt_gas=False).
bool divides_itself(const StepConfig& config) {
  return config.runtime.framework == "hf-trainer" || config.runtime.framework == "trl";
}

void scale(StepProgram& step, double by) {
  ir::Program& p = step.program;
  const ir::ValueId loss = step.loss;
  step.loss = p.make({}, p.value(loss).dtype, ir::Role::activation, in_loss, true);
  p.emit(ir::OpKind::mul_scalar, ir::Phase::loss, in_loss, {loss}, {step.loss}, ir::Number{by});
}

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  if (step.loss == ir::no_id) return;
  if (!divides_itself(config)) scale(step, 1.0 / static_cast<double>(config.run.grad_accum));
  scale(step, 1.0);
}

}  // namespace

extern const Pass zero_loss_pass;
const Pass zero_loss_pass{"zero-loss",
                          Stage::micro_batch,
                          "zero1, zero2, zero3: the loss, as DeepSpeed scales it",
                          applies,
                          run,
                          {},
                          Of::pytorch};

}  // namespace ac_advisor::passes
