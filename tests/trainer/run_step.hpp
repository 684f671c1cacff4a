#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/rank.hpp"
#include "trainer/weights/safetensors.hpp"

namespace ac_advisor::test {

/// Where the sources are.
[[nodiscard]] std::string source_folder();
/// fp32 on a CPU, which is what can be exact; options of the command line over it.
[[nodiscard]] OptionList trainer_options(const OptionList& options);
[[nodiscard]] StepConfig trainer_config(const OptionList& options);
/// Options and more of them; of two for one thing the last counts.
[[nodiscard]] OptionList with(OptionList list, const OptionList& more);
/// tiny-llama, or a small model of a family in tests/oracle/models.
[[nodiscard]] std::string oracle_model_name(const std::string& name);
[[nodiscard]] model::ModelSpec oracle_model(const std::string& name);
/// tokens of a seeded generator, below `vocab`
[[nodiscard]] trainer::Data random_tokens(std::int64_t vocab);

struct Outcome {
  double loss = 0;                    ///< of the first step
  std::vector<at::Tensor> gradients;  ///< of the first step, whole
  std::vector<double> losses;
  std::int64_t peak = 0, declared_peak = 0;  ///< of the last step
  std::array<std::int64_t, 5> by_phase{}, declared_by_phase{};
  std::vector<at::Tensor> parameters;  ///< after the last step, whole
  std::int64_t host_peak = 0;          ///< of the last step
};

using Wrap =
    std::function<std::unique_ptr<trainer::Collectives>(std::unique_ptr<trainer::Collectives>)>;

/// What each rank runs on; empty: the CPU.
using MakeBackend = std::function<std::unique_ptr<trainer::Backend>()>;

/// Runs `steps` steps on `config.layout.world` ranks (threads), or emulated; rank 0's outcome.
/// `wrap` may put others around the threads' collectives.
[[nodiscard]] Outcome run_steps(const model::ModelSpec& model, const StepConfig& config, int steps,
                                const trainer::Data& data, bool emulated = false,
                                const trainer::Weights* weights = nullptr, const Wrap& wrap = {},
                                const MakeBackend& backend = {});

/// Checks that bytes are the plan's, of the step and of each phase; `workspaces`: with those, too
/// (oneDNN's scratch for bf16 is not planned).
void check_planned(const Outcome& run, const profile::Memory& predicted, bool workspaces);

/// The whole tensor of that name.
[[nodiscard]] at::Tensor read_all(const trainer::SafetensorsFile& file, const std::string& name);

/// Largest ‖a - b‖ / ‖b‖ over the tensors.
[[nodiscard]] double largest_difference(const std::vector<at::Tensor>& a,
                                        const std::vector<at::Tensor>& b);
[[nodiscard]] bool bit_identical(const std::vector<at::Tensor>& a,
                                 const std::vector<at::Tensor>& b);

}  // namespace ac_advisor::test
