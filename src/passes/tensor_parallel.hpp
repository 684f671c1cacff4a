#pragma once

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// DTensor's gradient of `parameter`, whole or a sum to be, as the shard or the replica that its
/// parameter is (torch/distributed/tensor/_redistribute.py, v2.11): a new value that an op of
/// `phase` makes, of `role`; `gradient` itself where it is one already.
[[nodiscard]] ir::ValueId redistributed(StepProgram& step, const Parameter& parameter,
                                        ir::ValueId gradient, std::int64_t tp_rank, ir::Phase phase,
                                        ir::Role role);

}  // namespace ac_advisor::passes
