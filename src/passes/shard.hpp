#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "optimizer.hpp"

namespace ac_advisor::passes {

/// A pass that puts a sharding strategy's buffers and collectives into the program.
class ShardPass {
 public:
  virtual ~ShardPass() = default;
  /// Rewrites one micro-batch, from op `first` on. Called once a micro-batch, in order.
  virtual void rewrite(ir::OpId first) = 0;
  /// What the optimizer updates on this rank.
  [[nodiscard]] virtual std::vector<OptimizedTensor> optimized() const = 0;
  virtual void after_optimizer() {}
};

[[nodiscard]] std::unique_ptr<ShardPass> make_fsdp2(StepProgram& step, const StepConfig& config);
[[nodiscard]] std::unique_ptr<ShardPass> make_ddp(StepProgram& step, const StepConfig& config);
[[nodiscard]] std::unique_ptr<ShardPass> make_zero(StepProgram& step, const StepConfig& config);

}  // namespace ac_advisor::passes
