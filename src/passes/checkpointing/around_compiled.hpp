#pragma once

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// Whether a block's checkpoint is around what the block is compiled to, so that its recomputation
/// is the forward graph once more: torchtune compiles layers first (0.6.1, recipes/
/// full_finetune_distributed.py, setup_model: compile_model, then set_activation_checkpointing).
/// Else it is a part of the graph, as TorchTitan has it.
[[nodiscard]] inline bool checkpoints_compiled_blocks(const StepConfig& config) {
  return config.memory.kernels == Kernels::compiled && config.runtime.framework == "torchtune" &&
         (config.memory.ac == AcMode::full || config.memory.ac == AcMode::every);
}

}  // namespace ac_advisor::passes
