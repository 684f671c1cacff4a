// Optimizers: LibTorch's fused SGD, and the stages of torch.optim's foreach AdamW.
#include <ATen/ops/_fused_sgd.h>

#include <cmath>
#include <unordered_map>

#include "passes/optimizer/ops.hpp"
#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {

/// An op's inputs by what they are for; what is neither updated, nor a gradient, nor state is a
/// denominator.
OptimizerTensors optimizer_tensors(const Call& c) {
  const passes::StepProgram& step = c.executor().step();
  std::unordered_map<ir::ValueId, std::vector<at::Tensor> OptimizerTensors::*> lists;
  for (const passes::OptimizedTensor& tensor : step.optimized) {
    lists[tensor.gradient] = &OptimizerTensors::gradients;
    lists[tensor.parameter] = &OptimizerTensors::parameters;
  }
  std::vector<at::Tensor> OptimizerTensors::*const states[] = {
      &OptimizerTensors::steps, &OptimizerTensors::averages, &OptimizerTensors::squares};
  for (std::size_t i = 0; i < step.optimizer_states.size(); ++i)
    lists[step.optimizer_states[i]] = states[i % 3];
  OptimizerTensors t;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const auto found = lists.find(step.program.input(c.op(), i));
    (found == lists.end() ? t.denominators : t.*found->second).push_back(c.in(i));
  }
  return t;
}

void sgd_fused(const Call& c) {
  OptimizerTensors t = optimizer_tensors(c);
  // CUDA's kernel refuses lists whose shapes differ; a shard's gradient may be flat.
  for (std::size_t i = 0; i < t.gradients.size(); ++i)
    t.gradients[i] = t.gradients[i].view_as(t.parameters[i]);
  at::_fused_sgd_(t.parameters, t.gradients, {}, /*weight_decay=*/0.0, /*momentum=*/0.0,
                  c.executor().optimizer().learning_rate, /*dampening=*/0.0, /*nesterov=*/false,
                  /*maximize=*/false, /*is_first_step=*/false);
}

/// torch.nn.utils.clip_grad_norm_, stage by stage (passes/optimizer/clip_grad.cpp).
void clip(const Call& c) {
  using passes::ClipStage;
  at::Tensor y = c.outputs() > 0 ? c.out(0) : at::Tensor();
  switch (static_cast<ClipStage>(c.attributes<ir::Foreach>().stage)) {
    case ClipStage::zeros:  // LibTorch's norms need no sums of chunks
    case ClipStage::sums:
      return;
    case ClipStage::norms:
      for (std::size_t i = 0; i < c.inputs(); ++i) {
        at::Tensor norm = c.out(i);
        at::linalg_vector_norm_out(norm, c.in(i));
      }
      return;
    case ClipStage::divide: {  // what the ranks of a layer have alike
      const auto ranks = static_cast<double>(c.executor().config().layout.tp);
      at::div_out(y, c.in(0), number(std::sqrt(ranks), y));
      return;
    }
    case ClipStage::stack:
      for (std::size_t i = 0; i < c.inputs(); ++i)
        y.select(0, static_cast<std::int64_t>(i)).copy_(c.in(i));
      return;
    case ClipStage::square:
      at::mul_out(y, c.in(0), c.in(0));
      return;
    case ClipStage::root:
      at::sqrt_out(y, c.in(0));
      return;
    case ClipStage::norm:
      at::linalg_vector_norm_out(y, c.in(0));
      return;
    case ClipStage::shift:
      at::add_out(y, c.in(0), number(1e-6, y));
      return;
    case ClipStage::invert:
      at::reciprocal_out(y, c.in(0));
      return;
    case ClipStage::coefficient:
      at::mul_out(y, c.in(0), number(c.executor().config().optimizer.clip_grad, y));
      return;
    case ClipStage::clamp:
      at::clamp_max_out(y, c.in(0), 1.0);
      return;
    case ClipStage::scale:  // gradients, the clamped coefficient, the coefficient
      for (std::size_t i = 0; i + 2 < c.inputs(); ++i) c.in(i).mul_(c.in(c.inputs() - 2));
      return;
  }
}

/// _multi_tensor_adamw, stage by stage (passes/optimizer.cpp lists them).
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
  if (c.attributes<ir::Foreach>().stage >= passes::clip_stages) return clip(c);
  OptimizerTensors t = optimizer_tensors(c);
  const OptimizerSettings& o = c.executor().optimizer();
  const auto steps = static_cast<double>(c.executor().step_number() + 1);  // with this one
  const auto each = [](const std::vector<at::Tensor>& list, auto f) {
    for (std::size_t i = 0; i < list.size(); ++i) f(i);
  };
  switch (c.attributes<ir::Foreach>().stage) {
    case 0:
      return each(t.steps, [&](std::size_t i) { t.steps[i].add_(number(1.0, t.steps[i])); });
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
        t.denominators[i].div_(
            number(std::sqrt(1.0 - std::pow(o.beta2, steps)), t.denominators[i]));
      });
    case 7:
      return each(t.denominators, [&](std::size_t i) {
        t.denominators[i].add_(number(o.epsilon, t.denominators[i]));
      });
    default:
      return each(t.parameters, [&](std::size_t i) {
        const double correction = 1.0 - std::pow(o.beta1, steps);
        t.parameters[i].addcdiv_(t.averages[i], t.denominators[i], -o.learning_rate / correction);
      });
  }
}

}  // namespace ac_advisor::trainer::aten
