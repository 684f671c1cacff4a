#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

/// Whole steps on a GPU's kernels beside a CPU's: on the host (tests/trainer/cuda) and on a GPU
/// (tests/gpu) the same.
namespace ac_advisor::test {

/// The largest differences that are let pass: of the loss relatively, of the tensors as
/// `largest_difference` has them.
struct StepBounds {
  double loss, gradients, parameters;
};

inline Outcome on_cpu(const model::ModelSpec& model, const OptionList& options, int steps = 2) {
  return run_steps(model, trainer_config(options), steps, random_tokens(model.vocab));
}
inline Outcome on_gpu(const MakeBackend& make, const model::ModelSpec& model,
                      const OptionList& options, int steps = 2, bool emulated = false) {
  return run_steps(model, trainer_config(with(options, {{"--gpu", "h200"}})), steps,
                   random_tokens(model.vocab), emulated, nullptr, {}, make);
}

inline void check_alike(const MakeBackend& make, const model::ModelSpec& model,
                        const OptionList& options, const StepBounds& bounds, int steps = 2) {
  CAPTURE(model.family);
  std::string text;
  for (const auto& [name, value] : options) text += name + " " + value + " ";
  CAPTURE(text);
  const Outcome cpu = on_cpu(model, options, steps), gpu = on_gpu(make, model, options, steps);
  CHECK(gpu.loss == doctest::Approx(cpu.loss).epsilon(bounds.loss));
  CHECK(largest_difference(gpu.gradients, cpu.gradients) < bounds.gradients);
  CHECK(largest_difference(gpu.parameters, cpu.parameters) < bounds.parameters);
}

/// Every kernel kind and loss, each with `options`.
inline void check_kernels_and_losses(const MakeBackend& make, const model::ModelSpec& model,
                                     const OptionList& options, const StepBounds& bounds,
                                     int steps = 2) {
  for (const char* kernels : {"eager", "fused"})
    for (const char* loss : {"ce", "lc-ce"})
      check_alike(make, model, with(options, {{"--kernels", kernels}, {"--loss", loss}}), bounds,
                  steps);
}

inline const OptionList fp32_steps{{"--attn", "eager"}, {"--seq", "24"}, {"--ac", "full"}};

}  // namespace ac_advisor::test
