#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// Whether positions that come with the batch reach the layers as a rotary table made for them, and
/// as nothing else: no row of a learned table, no bias of the scores, no scale of the queries.
[[nodiscard]] bool takes_rotary_positions(const model::ModelSpec& m);

/// NeMo AutoModel's batches do not say where documents begin (0.5.0, datasets/utils.py,
/// default_collater), neither do verl's (v0.9.1, workers/engine/fsdp/transformer_impl.py,
/// prepare_model_inputs): each block's flash attention looks in their positions.
[[nodiscard]] inline bool infers_documents(const StepConfig& c) {
  return c.run.packing > 0 && (c.runtime.framework == "automodel" || c.verl()) &&
         c.run.attention == Attention::flash;
}

}  // namespace ac_advisor::passes
