#pragma once

#include <vector>

#include "ac_advisor/passes/step_program.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// Model FLOPs, as MFU counts them (Chowdhery et al. 2022, PaLM, appendix B): products of the
/// forward and those that make gradients, not what is computed again. A frozen weight has no
/// gradient, so its layer's are two thirds of a trained one's.
class ModelFlops {
 public:
  ModelFlops(const passes::StepProgram& step, const Device& device);

  /// What the op's model FLOPs take at the peak of the dtype that it computes in: of 8 bits the
  /// peak of bf16, by which MFU is published.
  [[nodiscard]] double seconds_at_peak(ir::OpId id) const;

 private:
  [[nodiscard]] double flops(ir::OpId id) const;
  [[nodiscard]] double of_backward(const ir::Op& op) const;
  [[nodiscard]] double of_compiled(const ir::Op& op) const;

  const ir::Program& p_;
  const Device& device_;
  std::vector<bool> differentiated_;  ///< by op: a backward op names it
  std::vector<bool> frozen_;          ///< by value: a parameter without a gradient
};

}  // namespace ac_advisor::simulate
