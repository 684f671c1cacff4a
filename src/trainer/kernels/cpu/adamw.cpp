// LibTorch's fused AdamW.
#include <ATen/ops/_fused_adamw.h>

#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

void adamw_fused(const Call& c) {
  aten::OptimizerTensors t = aten::optimizer_tensors(c);
  for (const at::Tensor& step : t.steps) *step.mutable_data_ptr<float>() += 1.0F;
  const OptimizerSettings& o = c.executor().optimizer();
  at::_fused_adamw_(t.parameters, t.gradients, t.averages, t.squares, {}, t.steps, o.learning_rate,
                    o.beta1, o.beta2, o.weight_decay, o.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace ac_advisor::trainer::cpu
