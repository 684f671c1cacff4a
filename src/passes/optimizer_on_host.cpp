// FSDP2's CPUOffloadPolicy: parameters, gradients and states are the host's, and so is the
// optimizer's step. It is one range that reads each tensor as often as it is gone over.
#include <vector>

#include "optimizer_ops.hpp"

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

}  // namespace

bool steps_on_host(Optimizer kind) {
  for (const Traffic& t : traffic)
    if (t.kind == kind) return true;
  return false;
}

void append_on_host(OptimizerOps& ops, const OptimizerChoice& choice) {
  ir::Program& p = ops.program();
  for (const Traffic& row : traffic) {
    if (row.kind != choice.kind) continue;
    Values gone_over;
    // clip_grad_norm_ reads each gradient for its norm, and scales it.
    const int gradient = row.gradient + (choice.clip_grad > 0 ? 3 : 0);
    for (const OptimizedTensor& t : ops.tensors()) {
      gone_over.insert(gone_over.end(), static_cast<std::size_t>(row.parameter), t.parameter);
      if (t.gradient != ir::no_id)
        gone_over.insert(gone_over.end(), static_cast<std::size_t>(gradient), t.gradient);
      for (int i = 0; i < row.states; ++i) {
        // No state of the device: nothing makes it there.
        const V state = p.make(ops.shape(t.parameter), ops.dtype(t.parameter),
                               ir::Role::optimizer_state, ops.module_of(t.parameter));
        gone_over.insert(gone_over.end(), static_cast<std::size_t>(row.state), state);
      }
    }
    ops.op({&gone_over}, {}, 0, ir::OpKind::record_function);
  }
}

}  // namespace ac_advisor::passes
