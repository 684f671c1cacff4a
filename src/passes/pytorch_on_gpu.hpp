#pragma once

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// PyTorch's own step, not the trainer's, on a device that is not a CPU.
[[nodiscard]] inline bool pytorch_on_gpu(const StepConfig& c) {
  return c.runtime.kind == Runtime::pytorch && c.device.gpu != "cpu";
}

}  // namespace ac_advisor::passes
