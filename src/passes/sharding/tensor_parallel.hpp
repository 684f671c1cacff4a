#pragma once

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// DTensor's gradient of `parameter`, whole or a sum to be, as the shard or the replica that its
/// parameter is (torch/distributed/tensor/_redistribute.py, v2.11): a new value that an op of
/// `phase` makes, of `role`; `gradient` itself where it is one already.
[[nodiscard]] ir::ValueId redistributed(StepProgram& step, const Parameter& parameter,
                                        ir::ValueId gradient, std::int64_t tp_rank, ir::Phase phase,
                                        ir::Role role);

/// TorchTitan's plans, and what was compared with them, fit layers like Llama's.
[[nodiscard]] bool llama_like(const model::ModelSpec& m);
/// A sliding window that is shorter than a sequence.
[[nodiscard]] bool short_window(const model::ModelSpec& m, const StepConfig& c);

}  // namespace ac_advisor::passes
