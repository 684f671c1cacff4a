#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Whether the masters, the states and the step of DeepSpeed's optimizer are the host's.
[[nodiscard]] bool zero_on_host(const StepConfig& config);
/// Whether the parts of parameters are, too (ZeRO 3's offload_param).
[[nodiscard]] bool zero_parameters_on_host(const StepConfig& config);

/// How a micro-batch's hooks emit an op.
using EmitOp = std::function<ir::OpId(ir::OpKind, ir::ModulePath, const std::vector<ir::ValueId>&,
                                      const std::vector<ir::ValueId>&)>;

/// A gradient that was reduced, of a parameter that reaches into the planned rank's partition.
struct ZeroHostGradient {
  ir::ValueId gradient = ir::no_id;  ///< whole
  std::int64_t elements = 0;         ///< of it in the partition
  ir::ValueId buffer = ir::no_id;    ///< temp_grad_buffer_for_gpu_offload
  bool adds = false;                 ///< what earlier micro-batches left on the host
  bool waits = false;                ///< there for the next one
  bool last = false;
};

/// copy_grads_in_partition with cpu_offload. Returns the norm that the step reads; no_id: not the
/// last micro-batch.
ir::ValueId zero_gradient_to_host(ir::Program& program, const EmitOp& emit,
                                  const ZeroHostGradient& given);

}  // namespace ac_advisor::passes
