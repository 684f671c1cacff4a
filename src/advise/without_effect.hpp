#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/variant_options.hpp"

namespace ac_advisor::advise {

/// Whether an option's value changes anything of this step: off where it is about what the step
/// does not have.
[[nodiscard]] bool changes_step(std::string_view key, const model::ModelSpec& model,
                                const StepConfig& config);

/// The configuration with each option that changes nothing of its step at its default.
[[nodiscard]] StepConfig with_effects_alone(const model::ModelSpec& model, StepConfig config);

/// A sentence for each option by hand that says something of what this step does not have:
/// "--threads 8 has no effect: h100-80gb is a GPU". The one place where that is told.
[[nodiscard]] std::vector<std::string> without_effect(const model::ModelSpec& model,
                                                      const OptionList& by_hand,
                                                      const StepConfig& config);

}  // namespace ac_advisor::advise
