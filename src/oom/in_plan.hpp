#pragma once

#include "ac_advisor/oom/explain.hpp"
#include "tensor.hpp"

namespace ac_advisor::oom {

/// Ops of the planned step that make a tensor of these bytes.
struct InPlan {
  std::string op, module, phase;
};
/// The first such op whose tensors are of the role; else the first of any. None where the step has
/// no such tensor.
[[nodiscard]] std::optional<InPlan> find_in_plan(const model::ModelSpec& model,
                                                 const StepConfig& config, std::int64_t bytes,
                                                 Role role);

}  // namespace ac_advisor::oom
