#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "advise/budget.hpp"
#include "frame_marks.hpp"

namespace ac_advisor::oom {

/// An op of the planned step that makes a tensor.
struct InPlan {
  std::string op, module, phase;
};

/// A model's step, whose ops are made when they are first asked for.
class PlannedStep {
 public:
  PlannedStep(const model::ModelSpec& model, const StepConfig& config)
      : model_(model), config_(config) {}
  [[nodiscard]] const model::ModelSpec& model() const { return model_; }
  [[nodiscard]] const StepConfig& config() const { return config_; }
  /// The first op that makes a tensor of these bytes and of that role, one of the phase that the
  /// traceback tells before others; none: the step has none.
  /// Throws UserError where the step cannot be planned.
  [[nodiscard]] std::optional<InPlan> find(std::int64_t bytes, Role role, std::string_view phase);

 private:
  const model::ModelSpec& model_;
  const StepConfig& config_;
  std::optional<advise::Solved> solved_;
};

}  // namespace ac_advisor::oom
