#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Elements of each rank's part of a parameter, padded (Init._partition_param, v0.19.8).
[[nodiscard]] std::int64_t zero3_part(std::int64_t elements, std::int64_t ranks);

/// What gradients are reduced in: beside Ulysses in fp32 (runtime/engine.py:
/// seq_parallel_communication_data_type).
[[nodiscard]] DType zero3_reduced_in(const StepConfig& config);

/// A parameter that is whole on this rank, in a storage of so many elements.
[[nodiscard]] ir::ValueId make_whole(ir::Program& program, const Parameter& parameter,
                                     std::int64_t elements, ir::ModulePath module);

/// A small one, which stays whole from one optimizer step to the next: as long as all parts of it.
[[nodiscard]] ir::ValueId make_persistent(ir::Program& program, const Parameter& parameter,
                                          std::int64_t ranks);

}  // namespace ac_advisor::passes
