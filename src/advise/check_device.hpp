#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {

/// Throws UserError for what the configuration asks of a device that it does not have.
void check_device(const model::ModelSpec& model, const StepConfig& config,
                  const simulate::Device& device);

/// Whether what torch.compile makes of the model on this device is planned.
[[nodiscard]] bool plans_compiled(const model::ModelSpec& model, const StepConfig& config,
                                  const simulate::Device& device);

}  // namespace ac_advisor::advise
