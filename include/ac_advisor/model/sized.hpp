#pragma once

#include <optional>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::model {

/// An imported graph at the configuration's batch and sequence, where it was captured at others and
/// scales to these; a model as a framework's own layers have it. Absent: the model is what is to be
/// planned, or to be refused.
[[nodiscard]] std::optional<ModelSpec> sized(const ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::model
