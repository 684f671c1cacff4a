// torch.optim.AdamW (fused, foreach) and SGD, v2.11: what a step allocates and dispatches.
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using Values = OptimizerOps::Values;

struct Lists {
  Values parameters, gradients;
};

Lists lists_of(const std::vector<OptimizedTensor>& tensors) {
  Lists lists;
  for (const OptimizedTensor& t : tensors) {
    lists.parameters.push_back(t.parameter);
    if (t.gradient != ir::no_id) lists.gradients.push_back(t.gradient);
  }
  return lists;
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
  const Lists lists = lists_of(tensors);
  ops.range();
  ops.op({}, {});  // _foreach_add_ on the step counters
  ops.op({&lists.parameters, &lists.gradients, &states}, {}, 0, OpKind::adamw_fused);
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
  const Lists lists = lists_of(tensors);
  ops.range();
  ops.op({&lists.parameters, &lists.gradients}, {}, 0, OpKind::sgd_fused);
}

/// _multi_tensor_sgd: buffer *= momentum, buffer += gradient, p -= lr * buffer.
void append_sgd_momentum(OptimizerOps& ops, const OptimizerChoice&) {
  Values buffers;
  for (const OptimizedTensor& t : ops.tensors())
    buffers.push_back(ops.state(ops.shape(t.parameter), ops.dtype(t.parameter), t.parameter));
  const Lists lists = lists_of(ops.tensors());
  ops.range();
  ops.stage({&buffers}, {}, 1);
  ops.stage({&buffers, &lists.gradients}, {}, 2);
  ops.stage({&lists.parameters, &buffers}, {}, 2);
}

void append_adamw_foreach(OptimizerOps& ops, const OptimizerChoice&) {
  const Values states = add_moments(ops, ops.tensors());
  const Lists lists = lists_of(ops.tensors());
  ops.range();
  // _multi_tensor_adamw: step += 1, p *= 1 - lr * wd, exp_avg.lerp_, exp_avg_sq *=, addcmul_,
  // sqrt -> one temporary a parameter, /= bias correction, += eps, addcdiv_
  Values denominators;
  for (OptimizerOps::V v : lists.parameters)
    denominators.push_back(ops.temporary(ops.shape(v), ops.dtype(v)));
  ops.op({&states}, {});  // the counters, which are on the host of a GPU
  ops.stage({&lists.parameters}, {}, 1);
  ops.stage({&states, &lists.gradients}, {}, 2);
  ops.stage({&states}, {}, 1);
  ops.stage({&states, &lists.gradients}, {}, 3);
  ops.stage({&states}, denominators, 2);
  ops.stage({&states, &denominators}, {}, 1, true);
  ops.stage({&denominators}, {}, 1);
  ops.stage({&lists.parameters, &states, &denominators}, {}, 3, true);
}

}  // namespace ac_advisor::passes
