#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "trainer/data.hpp"
#include "trainer/executor.hpp"
#include "trainer/weights/weights.hpp"

namespace ac_advisor::trainer {

/// The program of a configuration, of one of its stages and parts of a layer; shared by the ranks
/// of a process that have the same.
struct Built {
  model::ModelSpec spec;
  StepConfig config;
  passes::StepProgram step;
  passes::Schedule schedule;
  std::vector<NamedParameter> parameters;  ///< step.parameters
  std::vector<std::size_t> trained;        ///< of these, which have a gradient
  bool cuda = false;                       ///< it is for a GPU
};
/// Throws UserError for what planner or trainer refuse.
[[nodiscard]] std::unique_ptr<Built> build(const model::ModelSpec& spec, const StepConfig& config);

/// One rank of a training run: its tensors, its executor, its data.
class Rank {
 public:
  /// `data` and `collectives` outlive the rank. `memory_limit`: bytes, 0 for none. Null `backend`:
  /// the CPU. Throws UserError for a limit that the device cannot keep.
  Rank(const Built& built, Collectives& collectives, const Data& data, std::uint64_t seed,
       std::int64_t memory_limit = 0, std::unique_ptr<Backend> backend = nullptr);

  /// From the seed, or from `file` (Hugging Face names).
  void load_weights(const Weights* file);

  struct Result {
    double loss = 0;  ///< mean over ranks and micro-batches
    StepTiming timing;
  };
  /// Puts the next step's first micro-batch into the inputs, as step() does.
  void load_first_batch();
  /// Runs the next step.
  Result step();
  /// Whole gradients of its stage in the order of Built::trained, taken just before the optimizer
  /// of the next step() runs; every rank must ask for them. Outside of the tracker.
  void capture_gradients(std::vector<at::Tensor>* into) { capture_ = into; }
  /// The whole parameter, gathered, on the host; collective.
  [[nodiscard]] at::Tensor parameter(std::size_t index);

  /// What must be kept to go on: parameters (or shards), optimizer state; by name.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> state();
  [[nodiscard]] std::int64_t steps_done() const { return steps_done_; }
  void set_steps_done(std::int64_t steps);

  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] MemoryTracker& tracker() { return tracker_; }
  [[nodiscard]] const Built& built() const { return built_; }
  [[nodiscard]] std::int64_t rank() const { return collectives_.rank(); }
  [[nodiscard]] const Mesh& mesh() const { return executor_.mesh(); }

 private:
  void load_batch(std::int64_t micro, const std::vector<at::Tensor>& inputs);
  void load_documents(std::int64_t first, const std::vector<at::Tensor>& inputs);
  void fill_buffers();
  void fill_factors();
  void fill_maps();
  void read_parameter(const Weights* file, std::size_t index, std::int64_t begin, std::int64_t end,
                      const at::Tensor& to);
  [[nodiscard]] std::pair<Group, std::int64_t> sharing(std::size_t index) const;
  [[nodiscard]] std::pair<Group, std::int64_t> sharded(std::size_t index) const;
  void read_own(const Weights* file, std::size_t index, std::int64_t begin, std::int64_t end,
                const at::Tensor& to);
  void load_quantized(const Weights* file, std::size_t index);
  struct Adapted;
  [[nodiscard]] Adapted adapted_by(std::size_t magnitude) const;
  void initial_magnitude(const Weights* file, std::size_t index, std::int64_t begin,
                         std::int64_t end, const at::Tensor& to);
  at::Tensor whole(std::size_t index, const at::Tensor& stored);
  void copy_gradients();

  const Built& built_;
  Collectives& collectives_;
  const Data& data_;
  std::uint64_t seed_;
  std::unique_ptr<Backend> backend_;
  MemoryTracker tracker_;
  Executor executor_;
  std::int64_t steps_done_ = 0;
  std::vector<at::Tensor>* capture_ = nullptr;
};

}  // namespace ac_advisor::trainer
