#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "trainer/collectives/collectives.hpp"
#include "trainer/counters/counters.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {

/// torch.optim.AdamW's (v2.11) defaults; SGD reads the learning rate alone.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
};

/// What one step took.
struct StepTiming {
  double seconds = 0;
  std::array<double, ir::phase_count> by_phase{};
  std::array<std::int64_t, ir::phase_count> launches{};  ///< kernels that were called
  std::int64_t phases_entered = 0;                       ///< recomputation and backward take turns
};

/// Runs the schedule that the planner simulates, on real tensors: op by op, each storage allocated
/// when it is first put out and released where the schedule frees it. No autograd.
class Executor {
 public:
  /// `tracker` and `collectives` outlive the executor.
  Executor(const passes::StepProgram& step, const passes::Schedule& schedule,
           const StepConfig& config, MemoryTracker& tracker, Collectives& collectives);

  /// Runs one step. `load(micro)` fills the inputs before each micro-batch;
  /// `loss(micro, value)` is told each micro-batch's loss.
  StepTiming run(const std::function<void(std::int64_t)>& load,
                 const std::function<void(std::int64_t, double)>& loss);

  /// The tensor that a value is now: a resident one, or in between ops one that is alive. A view is
  /// made on demand.
  [[nodiscard]] at::Tensor tensor(ir::ValueId v);
  /// Allocates every resident storage (zeros); call once.
  void allocate_residents();
  /// Gradients and what the loop holds of the last step.
  void drop_survivors();

  [[nodiscard]] const passes::StepProgram& step() const { return step_; }
  [[nodiscard]] const StepConfig& config() const { return config_; }
  [[nodiscard]] Collectives& collectives() { return collectives_; }
  [[nodiscard]] MemoryTracker& tracker() { return tracker_; }
  OptimizerSettings& optimizer() { return optimizer_; }
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  /// Draws other masks when a forward is recomputed: the fault that parity must notice.
  void flip_dropout_in_recomputation() { flipped_ = true; }
  void set_step(std::int64_t step) { step_number_ = step; }
  /// Called after each op with the bytes that are live.
  void set_observer(std::function<void(ir::OpId)> observer) { observer_ = std::move(observer); }
  /// Called once a step, when the gradients are complete.
  void set_before_optimizer(std::function<void()> hook) { before_optimizer_ = std::move(hook); }
  /// Counts hardware events of each phase from now on; they have begun, and outlive the steps.
  void set_counters(Counters* counters) { counters_ = counters; }
  [[nodiscard]] std::uint64_t dropout_key(const ir::Op& op) const;
  [[nodiscard]] ir::OpId current() const { return current_; }

  // For kernels.
  [[nodiscard]] at::Tensor output(const ir::Op& op, std::size_t i);
  void bind(ir::ValueId v, const at::Tensor& tensor);
  void adopt(ir::ValueId v, const at::Tensor& tensor);
  /// Parameters copied into DeepSpeed's bucket since the last reduction, with their places.
  struct Bucketed {
    std::size_t parameter = 0;
    std::int64_t start = 0, elements = 0;
  };
  std::vector<Bucketed>& bucket() { return bucket_; }

 private:
  void run_ops(ir::OpId begin, ir::OpId end, StepTiming& timing);
  void release(ir::StorageId s);
  at::Tensor allocate(ir::ValueId v);
  [[nodiscard]] at::Tensor view_of(const at::Tensor& base, ir::ValueId of, ir::ValueId v) const;
  [[nodiscard]] bool alive(ir::StorageId s) const { return alive_[static_cast<std::size_t>(s)]; }
  /// Before a micro-batch is run again: what its last run left, but for what it adds to.
  void drop_made_between(ir::OpId begin, ir::OpId end);

  const passes::StepProgram& step_;
  const ir::Program& p_;
  const passes::Schedule& schedule_;
  const StepConfig& config_;
  MemoryTracker& tracker_;
  Collectives& collectives_;
  OptimizerSettings optimizer_;
  std::uint64_t seed_ = 0;
  std::int64_t step_number_ = 0, micro_ = 0;
  bool flipped_ = false;
  ir::OpId current_ = ir::no_id;

  std::vector<at::Tensor> tensors_;         ///< by value
  std::vector<at::Tensor> whole_;           ///< by storage, as it was allocated
  std::vector<bool> alive_, resident_;      ///< by storage
  std::vector<std::int32_t> values_begin_;  ///< per storage, into values_of_
  std::vector<ir::ValueId> values_of_;
  std::function<void(ir::OpId)> observer_;
  Counters* counters_ = nullptr;
  std::function<void()> before_optimizer_;
  std::function<void(std::int64_t, double)> loss_;
  std::vector<Bucketed> bucket_;
};

}  // namespace ac_advisor::trainer
