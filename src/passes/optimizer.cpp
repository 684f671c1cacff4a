// torch.optim.AdamW (fused, foreach) and SGD, v2.11: what a step allocates and dispatches.
#include "optimizer.hpp"

#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Phase;
using ir::Role;
using ir::ValueId;

/// Resident from the first step's end; three a tensor: its step counter (a scalar), unless that is
/// on the host, exp_avg and exp_avg_sq. Empty for SGD without momentum.
std::vector<ValueId> add_optimizer_state(StepProgram& step, Optimizer optimizer,
                                         const std::vector<OptimizedTensor>& tensors,
                                         bool counters_on_host) {
  ir::Program& p = step.program;
  std::vector<ValueId> states;
  if (optimizer == Optimizer::sgd) return states;  // no momentum: no state
  for (const OptimizedTensor& t : tensors) {
    const ir::Value like = p.value(t.parameter);
    const ir::ModulePath module = p.storage(like.storage).module;
    if (!counters_on_host) states.push_back(p.make({}, DType::f32, Role::optimizer_state, module));
    for (int moment = 0; moment < 2; ++moment)
      states.push_back(p.make(like.shape, like.dtype, Role::optimizer_state, module));
  }
  step.resident.insert(step.resident.end(), states.begin(), states.end());
  return states;
}

}  // namespace

void append_optimizer(StepProgram& step, Optimizer optimizer, bool counters_on_host) {
  step.optimizer_states = add_optimizer_state(step, optimizer, step.optimized, counters_on_host);
  const std::vector<OptimizedTensor>& tensors = step.optimized;
  const std::vector<ValueId>& states = step.optimizer_states;
  ir::Program& p = step.program;
  const ir::ModulePath module{-1, ir::Module::optimizer};
  std::vector<ValueId> parameters, gradients;
  for (const OptimizedTensor& t : tensors) {
    parameters.push_back(t.parameter);
    if (t.gradient != no_id) gradients.push_back(t.gradient);
  }
  std::int32_t group = p.ops.empty() ? 0 : p.ops.back().group;
  const auto emit = [&](OpKind kind, std::initializer_list<const std::vector<ValueId>*> reads,
                        const std::vector<ValueId>& makes, const ir::Attributes& attributes = {}) {
    std::vector<ValueId> in;
    for (const auto* list : reads) in.insert(in.end(), list->begin(), list->end());
    const ir::OpId id = p.emit(kind, Phase::optimizer, module, in, makes, attributes);
    p.op(id).group = ++group;
  };
  emit(OpKind::record_function, {}, {});  // Optimizer.step's profiler range
  switch (optimizer) {
    case Optimizer::adamw:
      emit(OpKind::foreach, {}, {});  // _foreach_add_ on the step counters
      emit(OpKind::adamw_fused, {&parameters, &gradients, &states}, {});
      return;
    case Optimizer::sgd:
      emit(OpKind::sgd_fused, {&parameters, &gradients}, {});
      return;
    case Optimizer::adamw_foreach:
      break;
  }
  // _multi_tensor_adamw: step += 1, p *= 1 - lr * wd, exp_avg.lerp_, exp_avg_sq *=, addcmul_,
  // sqrt -> one temporary a parameter, /= bias correction, += eps, addcdiv_
  std::vector<ValueId> denominators;
  for (ValueId v : parameters)
    denominators.push_back(p.make(p.value(v).shape, p.value(v).dtype, Role::temporary, module));
  std::int32_t stage = 0;
  const auto stages = [&](std::initializer_list<const std::vector<ValueId>*> reads,
                          const std::vector<ValueId>& makes) {
    emit(OpKind::foreach, reads, makes, ir::Foreach{stage++});
  };
  stages({&states}, {});
  stages({&parameters}, {});
  stages({&states, &gradients}, {});
  stages({&states}, {});
  stages({&states, &gradients}, {});
  stages({&states}, denominators);
  stages({&states, &denominators}, {});
  stages({&denominators}, {});
  stages({&parameters, &states, &denominators}, {});
}

namespace {

bool always(const StepConfig&) { return true; }

/// fused keeps its step counters where the parameters are, foreach on the host (capturable=False);
/// the trainer's are the fused ones.
void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  const bool on_host = config.optimizer.kind == Optimizer::adamw_foreach &&
                       config.runtime.kind == Runtime::pytorch && config.device.gpu != "cpu";
  append_optimizer(step, config.optimizer.kind, on_host);
}

}  // namespace

extern const Pass optimizer_pass;
const Pass optimizer_pass{"optimizer", Stage::step, "its state, and its ops at the end",
                          always,      run,         {}};

}  // namespace ac_advisor::passes
