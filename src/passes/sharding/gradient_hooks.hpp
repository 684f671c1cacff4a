#pragma once

#include <utility>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Walks one micro-batch and calls `on_gradient` where autograd's post-accumulate hook of each
/// parameter would run: right after the node that completed its gradient.
class GradientHooks {
 public:
  GradientHooks(StepProgram& step, const StepConfig& config)
      : s_(step), p_(step.program), c_(config) {}
  virtual ~GradientHooks() = default;
  /// The micro-batch that was written last.
  void rewrite();

 protected:
  virtual void begin_forward() {}
  virtual void begin_backward() {}
  virtual void on_gradient(std::size_t parameter, ir::ValueId gradient) = 0;
  virtual void end_backward() {}
  /// Whether gradients stay the parameters' own, for the next micro-batch to add to.
  [[nodiscard]] virtual bool keeps_gradients() const { return false; }
  ir::OpId emit(ir::OpKind kind, ir::ModulePath module, std::vector<ir::ValueId> in,
                std::vector<ir::ValueId> out);
  [[nodiscard]] std::size_t micro_batch() const { return s_.micro_begin.size() - 1; }
  /// Of those that are written out.
  [[nodiscard]] bool last() const {
    return static_cast<std::int64_t>(micro_batch()) + 1 == micro_batches_written(c_);
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  std::int32_t next_group_ = -1'000'000'000;
  /// Parameters by the op that completes their gradient, as ops stood before they were walked.
  std::vector<std::pair<ir::OpId, std::size_t>> ready_;

 private:
  [[nodiscard]] std::vector<std::pair<ir::OpId, std::size_t>> in_order_of_gradients() const;
};

}  // namespace ac_advisor::passes
