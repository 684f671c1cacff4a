#pragma once

#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// What a training loop's names hold of a micro-batch until they are assigned again: the loss with
/// the graph behind it, and the model's output (--hold-output). A loop that clears them, or whose
/// frame ends, is rid of them when the next forward begins; `for ...: output = model(...)` is when
/// that forward is done (--held-until).
class LoopNames {
 public:
  /// Where a micro-batch begins.
  LoopNames(StepProgram& step, const StepConfig& config);
  /// The names are this micro-batch's. In a step's first that ends what the step before had made.
  void assign(ir::ValueId loss, const std::vector<ir::ValueId>& outputs);

 private:
  void hold(const std::vector<ir::ValueId>& values, ir::Phase phase);

  StepProgram& s_;
  const StepConfig& c_;
  bool until_next_;
  std::vector<ir::ValueId> held_;  ///< of the micro-batch before
};

/// What the step leaves under the loop's names is there when the next one begins.
void carry_names(StepProgram& step);

}  // namespace ac_advisor::passes
