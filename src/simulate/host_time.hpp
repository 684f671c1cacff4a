#pragma once

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// Seconds for the host to issue an op: Python's modules in forward and recomputation, the C++
/// engine in backward, a Python autograd.Function around each fused kernel; what FSDP2's hooks do
/// before a unit is gathered; what a checkpoint adds as it begins and begins again (half each), and
/// its Python hooks for each tensor that is saved in it or read from it. Called in the program's
/// order.
class IssueTimes {
 public:
  IssueTimes(const ir::Program& program, const Device& device) : p_(program), d_(device) {}
  [[nodiscard]] double operator()(const ir::Op& op);

 private:
  [[nodiscard]] bool begins_region(const ir::Op& op);

  const ir::Program& p_;
  const Device& d_;
  std::int32_t region_ = ir::no_id;
  ir::Phase phase_ = ir::Phase::forward;
};

}  // namespace ac_advisor::simulate
