#pragma once

#include <cstdint>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// Where Dynamo breaks the graph of a block, or who compiles gives it one in parts.
enum class GraphBreaks : std::uint8_t { none, at_modules, at_attention, at_parts };

/// DeepSpeed's ZeRO 3 has hooks on all modules, which Dynamo may not trace (0.19.8, runtime/zero/
/// parameter_offload.py: torch.compiler.disable). NeMo AutoModel compiles each layer in its place
/// (0.5.0, components/distributed/parallelizer.py: _apply_per_layer_compile), but attention of
/// ranks that share a sequence is hidden from Dynamo (cp_utils.py: attach_cp_sdpa_hooks), and that
/// of packed rows reads back where documents begin. TorchTitan compiles the parts of a block with
/// experts one by one (0.2.2, models/llama4/infra/parallelize.py: apply_compile).
[[nodiscard]] inline GraphBreaks graph_breaks(const model::ModelSpec& spec,
                                              const StepConfig& config) {
  if (config.memory.kernels != Kernels::compiled) return GraphBreaks::none;
  if (config.layout.zero3()) return GraphBreaks::at_modules;
  if (model::layer_forms(spec, config).padded_experts) return GraphBreaks::at_parts;
  const bool hidden = config.layout.cp > 1 || config.run.packing > 0;
  return hidden && config.runtime.framework == "automodel" ? GraphBreaks::at_attention
                                                           : GraphBreaks::none;
}

/// Whether there are checkpoints around what is compiled, or around what is not, so that a
/// recomputation runs ops once more. torchtune compiles layers first (0.6.1, recipes/
/// full_finetune_distributed.py, setup_model: compile_model, then set_activation_checkpointing);
/// where a graph is broken, Python calls a checkpoint with all that is in it. Else a checkpoint is
/// a part of the graph, as TorchTitan has it of dense blocks.
[[nodiscard]] inline bool checkpoints_compiled_blocks(const model::ModelSpec& spec,
                                                      const StepConfig& config) {
  if (config.memory.kernels != Kernels::compiled) return false;
  if (graph_breaks(spec, config) != GraphBreaks::none) return config.memory.ac != AcMode::none;
  return config.runtime.framework == "torchtune" &&
         (config.memory.ac == AcMode::full || config.memory.ac == AcMode::every);
}

}  // namespace ac_advisor::passes
