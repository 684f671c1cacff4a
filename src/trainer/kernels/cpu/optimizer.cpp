// Optimizers: LibTorch's fused AdamW and SGD, and the stages of torch.optim's foreach AdamW.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <cmath>
#include <vector>

#include "trainer/executor.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

struct Tensors {
  std::vector<at::Tensor> parameters, gradients, averages, squares, steps, denominators;
};

/// An op's inputs by what they are for: parameters, gradients, then (step, exp_avg, exp_avg_sq) of
/// each, then denominators.
Tensors sort_inputs(const Call& c) {
  Tensors t;
  int state = 0;
  const ir::Program& p = c.executor().step().program;
  bool moments_seen = false;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const ir::Role role = p.storage(p.storage_of(p.input(c.op(), i))).role;
    const at::Tensor x = c.in(i);
    if (role == ir::Role::optimizer_state && (x.dim() == 0 || moments_seen || state > 0)) {
      moments_seen = true;
      std::vector<at::Tensor>* lists[] = {&t.steps, &t.averages, &t.squares};
      lists[state]->push_back(x);
      state = (state + 1) % 3;
    } else if (role == ir::Role::temporary && t.parameters.empty()) {
      t.denominators.push_back(x);
    } else if (role == ir::Role::temporary && moments_seen) {
      t.denominators.push_back(x);
    } else if (role == ir::Role::parameter || role == ir::Role::optimizer_state) {
      t.parameters.push_back(x);
    } else {
      t.gradients.push_back(x);
    }
  }
  return t;
}

}  // namespace

void adamw_fused(const Call& c) {
  Tensors t = sort_inputs(c);
  for (const at::Tensor& step : t.steps) *step.mutable_data_ptr<float>() += 1.0F;
  const OptimizerSettings& o = c.executor().optimizer();
  at::_fused_adamw_(t.parameters, t.gradients, t.averages, t.squares, {}, t.steps, o.learning_rate,
                    o.beta1, o.beta2, o.weight_decay, o.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void sgd_fused(const Call& c) {
  Tensors t = sort_inputs(c);
  at::_fused_sgd_(t.parameters, t.gradients, {}, /*weight_decay=*/0.0, /*momentum=*/0.0,
                  c.executor().optimizer().learning_rate, /*dampening=*/0.0, /*nesterov=*/false,
                  /*maximize=*/false, /*is_first_step=*/false);
}

/// _multi_tensor_adamw, stage by stage (`dim`; passes/optimizer.cpp lists them).
void foreach (const Call& c) {
  if (c.inputs() == 0) return;                 // step counters of the fused form: with the update
  if (c.op().phase != ir::Phase::optimizer) {  // FSDP's copy of shards to the compute dtype
    const at::Tensor flat = c.out();
    std::int64_t start = 0;
    for (std::size_t i = 0; i < c.inputs(); ++i) {
      const at::Tensor x = c.in(i);
      flat.narrow(0, start, x.numel()).copy_(x);
      start += x.numel();
    }
    return;
  }
  Tensors t = sort_inputs(c);
  const OptimizerSettings& o = c.executor().optimizer();
  const auto each = [](const std::vector<at::Tensor>& list, auto f) {
    for (std::size_t i = 0; i < list.size(); ++i) f(i);
  };
  switch (c.op().dim) {
    case 0:
      return each(t.steps, [&](std::size_t i) { *t.steps[i].mutable_data_ptr<float>() += 1.0F; });
    case 1:
      return each(t.parameters, [&](std::size_t i) {
        t.parameters[i].mul_(number(1.0 - o.learning_rate * o.weight_decay, t.parameters[i]));
      });
    case 2:
      return each(t.averages, [&](std::size_t i) {
        t.averages[i].lerp_(t.gradients[i].view_as(t.averages[i]), 1.0 - o.beta1);
      });
    case 3:
      return each(t.squares,
                  [&](std::size_t i) { t.squares[i].mul_(number(o.beta2, t.squares[i])); });
    case 4:
      return each(t.squares, [&](std::size_t i) {
        const at::Tensor g = t.gradients[i].view_as(t.squares[i]);
        t.squares[i].addcmul_(g, g, 1.0 - o.beta2);
      });
    case 5:
      return each(t.squares, [&](std::size_t i) {
        at::Tensor root = c.out(i);
        at::sqrt_out(root, t.squares[i]);
      });
    case 6:
      return each(t.denominators, [&](std::size_t i) {
        t.denominators[i].div_(number(std::sqrt(1.0 - std::pow(o.beta2, t.steps[i].item<double>())),
                                      t.denominators[i]));
      });
    case 7:
      return each(t.denominators, [&](std::size_t i) {
        t.denominators[i].add_(number(o.epsilon, t.denominators[i]));
      });
    default:
      return each(t.parameters, [&](std::size_t i) {
        const double correction = 1.0 - std::pow(o.beta1, t.steps[i].item<double>());
        t.parameters[i].addcdiv_(t.averages[i], t.denominators[i], -o.learning_rate / correction);
      });
  }
}

}  // namespace ac_advisor::trainer::cpu
