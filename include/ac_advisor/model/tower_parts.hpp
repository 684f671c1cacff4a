#pragma once

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {

/// Whether --freeze calls this layer the projector's: Qwen's mergers, DeepStack's among them, and
/// what wrappers call multi_modal_projector.
[[nodiscard]] bool of_projector(const EncoderLinear& layer);

}  // namespace ac_advisor::model
