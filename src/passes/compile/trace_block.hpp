#pragma once

#include <span>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// How a block is traced.
struct TraceOptions {
  bool cudnn = true;          ///< scaled_dot_product_attention runs cuDNN's kernel, not flash
  bool checkpointed = false;  ///< its ops are marked to be recomputed, but for those that are kept
  bool neighbours = false;    ///< a rotation's halves are every second element
  /// Queries and keys are turned as they are projected, tokens before heads (TorchTitan).
  bool turns_by_token = false;
  bool norms_of_heads = false;  ///< queries' and keys' norms see heads before tokens (gemma3)
  /// --ac selective: a policy tags each op, what autograd functions launch too; it has the largest
  /// magnitude of what is cast to fp8 with one scale.
  bool by_policy = false;
  bool shared_layers = false;  ///< ranks have parts of them: --tp
  bool by_region = false;      ///< checkpoints within a block are those of its ops
  bool flat_mlp = false;       ///< the second norm and the MLP see a matrix of all tokens
};

/// What a model's blocks are traced with.
[[nodiscard]] TraceOptions trace_options(const model::ModelSpec& spec, const StepConfig& config);

/// The joint graph of one transformer block: ops [first, end) of the forward program that lowering
/// wrote, as torch.compile traces the module that they came from. Values made before are
/// placeholders, `outputs` are what the block returns. Throws std::logic_error for an op that
/// `can_trace` does not know.
[[nodiscard]] JointGraph trace_block(const ir::Program& program, ir::OpId first, ir::OpId end,
                                     std::span<const ir::ValueId> outputs,
                                     const TraceOptions& options);

/// The joint graph of a whole model with its cross-entropy: ops [first, end) up to the `logits`, as
/// torch.compile(model) traces transformers' forward (5.23). Checkpoints are those of the ops.
[[nodiscard]] JointGraph trace_model(const ir::Program& program, ir::OpId first, ir::OpId end,
                                     ir::ValueId logits, ir::ValueId labels,
                                     const TraceOptions& options);

}  // namespace ac_advisor::passes::compile
