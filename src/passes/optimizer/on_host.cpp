// Steps of optimizers on the host. FSDP2's CPUOffloadPolicy: parameters, gradients and states are
// the host's; the step is one range that reads each tensor as often as it is gone over. torchao's
// CPUOffloadOptimizer: a range a parameter, of the host's own copies.
#include <vector>

#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

using V = OptimizerOps::V;
using Values = OptimizerOps::Values;

/// How often a step goes over a parameter, its gradient and each of its states, reads and writes
/// apart (torch/optim, v2.11). Fused: at::native's CPU kernel, one loop (FusedAdamKernel.cpp).
/// Otherwise _single_tensor_adamw and _single_tensor_sgd, which foreach comes to on a CPU: op by
/// op, temporaries counted with the state that they are made of.
struct Traffic {
  Optimizer kind;
  int states, parameter, gradient, state;
};
constexpr Traffic traffic[] = {
    {Optimizer::adamw, 2, 2, 1, 2},
    // mul_; lerp_; mul_, addcmul_; sqrt, div, add_ of a temporary; addcdiv_
    {Optimizer::adamw_foreach, 2, 4, 3, 7},
    {Optimizer::sgd, 0, 2, 1, 0},
    // buf.mul_, add_; add_
    {Optimizer::sgd_momentum, 1, 2, 1, 5},
};

const Traffic* traffic_of(Optimizer kind) {
  for (const Traffic& t : traffic)
    if (t.kind == kind) return &t;
  return nullptr;
}

/// Adds what a step goes over of one tensor, each so often. `more`: reads of the gradient.
void go_over(OptimizerOps& ops, const Traffic& row, const OptimizedTensor& t, int more,
             Values& gone_over) {
  gone_over.insert(gone_over.end(), static_cast<std::size_t>(row.parameter), t.parameter);
  if (t.gradient != ir::no_id)
    gone_over.insert(gone_over.end(), static_cast<std::size_t>(row.gradient + more), t.gradient);
  for (int i = 0; i < row.states; ++i) {
    // No state of the device: nothing makes it there.
    const V state = ops.program().make(ops.shape(t.parameter), ops.dtype(t.parameter),
                                       ir::Role::optimizer_state, ops.module_of(t.parameter));
    gone_over.insert(gone_over.end(), static_cast<std::size_t>(row.state), state);
  }
}

}  // namespace

bool steps_on_host(Optimizer kind) { return traffic_of(kind) != nullptr; }

int states_on_host(Optimizer kind) {
  const Traffic* row = traffic_of(kind);
  return row == nullptr ? 0 : row->states;
}

void append_on_host(OptimizerOps& ops, const OptimizerChoice& choice) {
  const Traffic* row = traffic_of(choice.kind);
  if (row == nullptr) throw std::logic_error("an optimizer whose step on a CPU is refused");
  Values gone_over;
  // clip_grad_norm_ reads each gradient for its norm, and scales it.
  const int clipped = choice.clip_grad > 0 ? 3 : 0;
  for (const OptimizedTensor& t : ops.tensors()) go_over(ops, *row, t, clipped, gone_over);
  ops.op({&gone_over}, {}, 0, ir::OpKind::record_function);
}

void step_on_host(OptimizerOps& ops, const OptimizedTensor& tensor, const OptimizerChoice& choice) {
  const Traffic* row = traffic_of(choice.kind);
  if (row == nullptr) throw std::logic_error("an optimizer whose step on a CPU is refused");
  const auto copy_on_host = [&](ir::Role role) {
    return ops.program().make(ops.shape(tensor.parameter), ops.dtype(tensor.parameter), role,
                              ops.module_of(tensor.parameter));
  };
  const OptimizedTensor own{copy_on_host(ir::Role::parameter), copy_on_host(ir::Role::gradient)};
  Values gone_over;
  go_over(ops, *row, own, 0, gone_over);
  ops.op({&gone_over}, {}, 0, ir::OpKind::record_function);
}

}  // namespace ac_advisor::passes
