#pragma once

#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// What the optimizer updates: whole parameters, or shards, or flat partitions.
struct OptimizedTensor {
  ir::ValueId parameter = ir::no_id;
  ir::ValueId gradient = ir::no_id;
};

/// Moments and step counters, resident from the first step's end.
void add_optimizer_state(StepProgram& step, Optimizer optimizer,
                         const std::vector<OptimizedTensor>& tensors);
/// The optimizer's ops at the end of the step.
void append_optimizer(StepProgram& step, Optimizer optimizer,
                      const std::vector<OptimizedTensor>& tensors);

}  // namespace ac_advisor::passes
