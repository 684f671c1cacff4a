// torch.optim.AdamW (fused, foreach) and SGD, v2.11: what a step allocates and dispatches.
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using Values = OptimizerOps::Values;

Values parameters_of(const std::vector<OptimizedTensor>& tensors) {
  Values all;
  for (const OptimizedTensor& t : tensors) all.push_back(t.parameter);
  return all;
}

/// Three a tensor: its step counter (a scalar) unless that is on the host, exp_avg and exp_avg_sq.
Values add_moments(OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors) {
  Values states;
  for (const OptimizedTensor& t : tensors) {
    if (!ops.counters_on_host()) states.push_back(ops.state({}, DType::f32, t.parameter));
    for (int moment = 0; moment < 2; ++moment)
      states.push_back(ops.state(ops.shape(t.parameter), ops.dtype(t.parameter), t.parameter));
  }
  return states;
}

}  // namespace

void append_adamw_of(OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors,
                     const OptimizerChoice& choice) {
  const Values states = add_moments(ops, tensors);
  const Values parameters = parameters_of(tensors);
  ops.range();
  ops.op({}, {});  // _foreach_add_ on the step counters
  const Values gradients = ops.gradients(tensors);
  ops.op({&parameters, &gradients, &states}, {}, 0, OpKind::adamw_fused);
  if (!choice.grad_scaler) return;
  Values counters;  // _foreach_sub_: a step that found_inf has skipped is not counted
  for (OptimizerOps::V v : states)
    if (ops.shape(v).rank() == 0) counters.push_back(v);
  const Values found(counters.size(), ops.found_inf());
  ops.stage({&counters, &found}, {}, 2);
}

void append_adamw(OptimizerOps& ops, const OptimizerChoice& choice) {
  append_adamw_of(ops, ops.tensors(), choice);
}

void append_sgd(OptimizerOps& ops, const OptimizerChoice&) { append_sgd_of(ops, ops.tensors()); }

void append_sgd_of(OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors) {
  const Values parameters = parameters_of(tensors);
  ops.range();
  const Values gradients = ops.gradients(tensors);
  ops.op({&parameters, &gradients}, {}, 0, OpKind::sgd_fused);
}

/// _multi_tensor_sgd: buffer *= momentum, buffer += gradient, p -= lr * buffer.
void append_sgd_momentum(OptimizerOps& ops, const OptimizerChoice&) {
  Values buffers;
  for (const OptimizedTensor& t : ops.tensors())
    buffers.push_back(ops.state(ops.shape(t.parameter), ops.dtype(t.parameter), t.parameter));
  const Values parameters = parameters_of(ops.tensors());
  ops.range();
  ops.stage({&buffers}, {}, 1);
  const Values gradients = ops.gradients(ops.tensors());
  ops.stage({&buffers, &gradients}, {}, 2);
  ops.stage({&parameters, &buffers}, {}, 2);
}

void append_adamw_foreach(OptimizerOps& ops, const OptimizerChoice&) {
  const Values states = add_moments(ops, ops.tensors());
  const Values parameters = parameters_of(ops.tensors());
  ops.range();
  // _multi_tensor_adamw: step += 1, p *= 1 - lr * wd, exp_avg.lerp_, exp_avg_sq *=, addcmul_,
  // sqrt -> one temporary a parameter, /= bias correction, += eps, addcdiv_
  Values denominators;
  for (OptimizerOps::V v : parameters)
    denominators.push_back(ops.temporary(ops.shape(v), ops.dtype(v)));
  ops.op({&states}, {});  // the counters, which are on the host of a GPU
  ops.stage({&parameters}, {}, 1);
  Values gradients = ops.gradients(ops.tensors());
  ops.stage({&states, &gradients}, {}, 2);
  ops.stage({&states}, {}, 1);
  gradients = ops.gradients(ops.tensors());
  const Values again = ops.gradients(ops.tensors());  // addcmul_'s other factor
  ops.stage({&states, &gradients}, {}, 3);
  if (again != gradients) ops.hold(again);
  ops.stage({&states}, denominators, 2);
  ops.stage({&states, &denominators}, {}, 1, true);
  ops.stage({&denominators}, {}, 1);
  ops.stage({&parameters, &states, &denominators}, {}, 3, true);
}

}  // namespace ac_advisor::passes
