#pragma once

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// Seconds for the host to issue an op: Python's modules in forward and recomputation, the C++
/// engine in backward, a Python autograd.Function around each fused kernel; what a checkpoint's
/// Python hooks add for each tensor that is saved in it or read from it.
[[nodiscard]] double issue_seconds(const ir::Program& program, const ir::Op& op,
                                   const Device& device);

}  // namespace ac_advisor::simulate
