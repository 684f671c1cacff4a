#pragma once

#include <cstdint>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {

/// What an inference engine on the trainer's device takes. Bytes.
struct RolloutEngine {
  std::int64_t awake = 0;   ///< its share of all that the device has
  std::int64_t asleep = 0;  ///< as it stays while the trainer runs: `awake` without a sleep mode
};
[[nodiscard]] RolloutEngine rollout_engine(const StepConfig& config,
                                           const simulate::Device& device);
/// Of its weights, in bf16, on one of the ranks that share its layers. Bytes.
[[nodiscard]] std::int64_t engine_weights(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::advise
