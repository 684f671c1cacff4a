#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::trainer {

/// Hugging Face's names of the parameters, in the order of `step.parameters`
/// ("model.layers.0.self_attn.q_proj.weight").
[[nodiscard]] std::vector<std::string> parameter_names(const model::ModelSpec& spec,
                                                       const passes::StepProgram& step);

}  // namespace ac_advisor::trainer
