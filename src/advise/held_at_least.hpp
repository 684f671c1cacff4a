#pragma once

#include <cstdint>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "least_costs.hpp"

namespace ac_advisor::advise {

/// Bytes that the rank of a pipeline which holds the most holds at least, without a simulation: its
/// share of the parameters and of AdamW's moments, the buffers that it receives into, and once
/// backwards have begun its stages' parameters and gradients, whole under FSDP2 too
/// (docs/layouts.md, Pipelines), beside the blocks' inputs of the micro-batches in flight (none,
/// full, selective), or with `references` all that blocks save. Without stages: shards, moments and
/// either what the forward leaves or all gradients. 0 where blocks differ, or nothing is sharded.
[[nodiscard]] std::int64_t held_at_least(const model::ModelSpec& model, const StepConfig& config,
                                         const ReferenceSteps* references = nullptr);

}  // namespace ac_advisor::advise
