#pragma once

#include <vector>

#include "shard.hpp"

namespace ac_advisor::passes {

/// Walks one micro-batch and calls `on_gradient` where autograd's post-accumulate hook of each
/// parameter would run: right after the node that completed its gradient.
class GradientHooks : public ShardPass {
 public:
  GradientHooks(StepProgram& step, const StepConfig& config)
      : s_(step), p_(step.program), c_(config) {}
  void rewrite(ir::OpId first) final;

 protected:
  virtual void begin_backward() {}
  virtual void on_gradient(std::size_t parameter, ir::ValueId gradient) = 0;
  virtual void end_backward() {}
  ir::OpId emit(ir::OpKind kind, ir::ModulePath module, std::vector<ir::ValueId> in,
                std::vector<ir::ValueId> out);
  [[nodiscard]] std::int64_t micro_batch() const { return micro_; }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;

 private:
  std::int32_t micro_ = 0;
  std::int32_t next_group_ = -1'000'000'000;
};

}  // namespace ac_advisor::passes
