#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "trainer/backend/backend.hpp"
#include "trainer/collectives/collectives.hpp"
#include "trainer/counters/counters.hpp"
#include "trainer/host_memory.hpp"
#include "trainer/memory_tracker.hpp"
#include "trainer/mesh.hpp"

namespace ac_advisor::trainer {

/// torch.optim.AdamW's (v2.11) defaults; SGD reads the learning rate alone.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
};

/// What one step took.
struct StepTiming {
  double seconds = 0;
  std::array<double, ir::phase_count> by_phase{};        ///< none where a graph was replayed
  std::array<std::int64_t, ir::phase_count> launches{};  ///< kernels that were called
  std::int64_t phases_entered = 0;                       ///< recomputation and backward take turns
};

/// Runs the schedule that the planner simulates, on real tensors: op by op, each storage allocated
/// when it is first put out and released where the schedule frees it. No autograd.
class Executor {
 public:
  /// All but `step`, `schedule` and `config` are used by this rank alone; all outlive the executor.
  Executor(const passes::StepProgram& step, const passes::Schedule& schedule,
           const StepConfig& config, Backend& backend, MemoryTracker& tracker,
           Collectives& collectives);

  /// Fills a micro-batch's inputs, tensors of the host in the order of step.inputs.
  using Load = std::function<void(std::int64_t micro, const std::vector<at::Tensor>& inputs)>;
  /// Runs one step and waits for it; `loss(micro, value)` is told each micro-batch's loss.
  StepTiming run(const Load& load, const std::function<void(std::int64_t, double)>& loss);

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
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Of the step's inputs, ids and labels, where a part of a sequence is in it, and of a packed row
  /// positions and where its documents begin.
  [[nodiscard]] std::span<const ir::ValueId> tokens() const;
  /// What one micro-batch has of such an input.
  [[nodiscard]] ir::Shape input_shape(ir::ValueId v) const;
  [[nodiscard]] MemoryTracker& tracker() { return tracker_; }
  [[nodiscard]] Backend& backend() { return backend_; }
  [[nodiscard]] HostMemory& host() { return host_; }
  OptimizerSettings& optimizer() { return optimizer_; }
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  /// Draws other masks when a forward is recomputed: the fault that parity must notice.
  void flip_dropout_in_recomputation() { flipped_ = true; }
  void set_step(std::int64_t step) { step_number_ = step; }
  [[nodiscard]] std::int64_t step_number() const { return step_number_; }
  /// Steps after the next `warm_up` are captured once and replayed; `off` forgets the graphs.
  void set_capture(CudaGraph capture, std::int64_t warm_up = 2);
  /// Whether the next step is issued op by op though graphs are asked for.
  [[nodiscard]] bool warms_up() const {
    return capture_ != CudaGraph::off && graphs_.empty() && until_capture_ > 0;
  }
  /// Called after each op with the bytes that are live.
  void set_observer(std::function<void(ir::OpId)> observer) { observer_ = std::move(observer); }
  /// Called once a step, when the gradients are complete.
  void set_before_optimizer(std::function<void()> hook) { before_optimizer_ = std::move(hook); }
  /// What dropout draws with: a key of seed and step, the micro-batch, and the op.
  [[nodiscard]] std::uint64_t step_key() const;
  [[nodiscard]] std::int64_t micro() const { return micro_; }
  [[nodiscard]] std::uint64_t dropout_op(const ir::Op& op) const;
  /// Counts hardware events of each phase from now on; they have begun, and outlive the steps.
  void set_counters(Counters* counters) { counters_ = counters; }
  /// Numbers messages around a ring, whose ranks have programs of their own but as many messages in
  /// the same order.
  [[nodiscard]] std::int32_t next_message() { return messages_++ % most_messages; }
  [[nodiscard]] ir::OpId current() const { return current_; }

  // For kernels.
  /// What `v` is a view of lies in `root`: where v is in it.
  [[nodiscard]] at::Tensor seen_as(ir::ValueId v, const at::Tensor& root) const;
  [[nodiscard]] at::Tensor output(const ir::Op& op, std::size_t i);
  void bind(ir::ValueId v, const at::Tensor& tensor);
  void adopt(ir::ValueId v, const at::Tensor& tensor);
  /// A collective that is under way (null: it is done): what next reads, writes or frees one of
  /// `storages` waits for it first.
  void begin(std::unique_ptr<Pending> collective, const std::vector<ir::StorageId>& storages);

 private:
  /// Where a phase begins in the issued work: the backend's mark.
  static constexpr std::int32_t most_messages = 1 << 20;
  struct PhaseBegin {
    ir::Phase phase;
    std::size_t mark;
  };
  void issue();
  void issue_micro_batches(ir::OpId end);
  void issue_pipeline(ir::OpId end);
  [[nodiscard]] bool piped() const { return config_.layout.pp > 1; }
  void capture();
  void part(ir::Phase phase, const std::function<void()>& work);
  void run_segments(ir::OpId begin, ir::OpId end);
  void run_ops(ir::OpId begin, ir::OpId end);
  void count_launches(const ir::Op& op);
  void finish();
  void release(ir::StorageId s);
  void wait_for(ir::StorageId s);
  void wait_for_operands(const ir::Op& op);
  void wait_for_all();
  at::Tensor allocate(ir::ValueId v);
  [[nodiscard]] at::Tensor view_of(const at::Tensor& base, ir::ValueId of, ir::ValueId v) const;
  [[nodiscard]] bool alive(ir::StorageId s) const { return alive_[static_cast<std::size_t>(s)]; }
  /// Before a micro-batch is run again: what its last run left, but for what it adds to.
  void drop_made_between(ir::OpId begin, ir::OpId end);

  const passes::StepProgram& step_;
  const ir::Program& p_;
  const passes::Schedule& schedule_;
  const StepConfig& config_;
  Backend& backend_;
  MemoryTracker& tracker_;
  HostMemory host_;
  Collectives& collectives_;
  Mesh mesh_;
  OptimizerSettings optimizer_;
  std::uint64_t seed_ = 0;
  std::int64_t step_number_ = 0, micro_ = 0;
  bool flipped_ = false;
  ir::OpId current_ = ir::no_id;
  std::int32_t messages_ = 0;

  std::vector<at::Tensor> tensors_;              ///< by value
  std::vector<at::Tensor> whole_;                ///< by storage, as it was allocated
  std::vector<bool> alive_, resident_;           ///< by storage
  std::vector<std::shared_ptr<Pending>> begun_;  ///< by storage; a collective may be there twice
  std::size_t under_way_ = 0;                    ///< of begun_, those that are not null
  std::vector<std::int32_t> values_begin_;       ///< per storage, into values_of_
  std::vector<ir::ValueId> values_of_;
  std::function<void(ir::OpId)> observer_;
  Counters* counters_ = nullptr;
  std::function<void()> before_optimizer_;
  std::vector<std::vector<at::Tensor>> staged_;  ///< by micro-batch, the inputs on the host
  at::Tensor losses_;                            ///< by micro-batch, on the host
  std::vector<PhaseBegin> phases_;
  std::array<std::int64_t, ir::phase_count> launches_{};
  std::int64_t launched_ = 0;  ///< that the device had counted after the last op
  std::int64_t phases_entered_ = 0;
  CudaGraph capture_ = CudaGraph::off;
  std::int64_t until_capture_ = 0;
  /// Captured work, and the range that its replay is in: a phase, or "graph" for a whole step.
  struct Captured {
    const char* range;
    std::unique_ptr<Graph> graph;
  };
  std::vector<Captured> graphs_;  ///< in the order of replay
  bool capturing_ = false;
};

}  // namespace ac_advisor::trainer
