#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// What `advise --solve` looks for on a device: sequences a rank, tokens a sequence, the sample
/// model of most parameters, or of GRPO tokens of a completion; or the least that a step fits: how
/// many devices, or which of them.
enum class Sought : std::uint8_t { batch, seq, model, completion, world, gpu };

/// One setting with the most of what was sought that fits.
struct Found {
  std::string label;  ///< "full lc-ce fused"; of a model or device its name and fastest setting
  std::int64_t value =
      0;  ///< sequences, tokens, parameters, devices, or bytes of one; 0: none fits
  profile::Profile profile;  ///< planned with it
  bool exact = true;         ///< off: a larger one was not tried and may fit
  std::string unavailable;   ///< why the framework cannot do this; empty: it can
  bool capped = false;       ///< the model has no more positions; memory is left
};

struct Largest {
  Sought sought = Sought::batch;
  StepConfig base;
  std::vector<Found>
      found;  ///< what the framework has first; most first (world, gpu: least); the fastest
  std::string answer;  ///< a sentence
  /// What of the samples, numbers of devices or devices is no row: "gemma-2-2b", and why.
  std::vector<NotPlanned> left_out;

  /// Each row is of another model, number of devices or device.
  [[nodiscard]] bool rows_differ() const {
    return sought == Sought::model || sought == Sought::world || sought == Sought::gpu;
  }
};

/// The largest --batch, --seq or --completion of each combination of `space` (its --batch axis
/// apart). A sequence is a multiple of 8 tokens (of more where the layout asks for it), and no
/// longer than the model's positions.
[[nodiscard]] Largest largest(Sought sought, const model::ModelSpec& model, const StepConfig& base,
                              const Space& space);
/// A model's base and what is varied around it.
struct Around {
  StepConfig base;
  Space space;
};
/// The sample models that fit under their base in one of the combinations of their space.
[[nodiscard]] Largest largest_model(const StepConfig& base,
                                    const std::function<Around(const model::ModelSpec&)>& around);

/// The fewest devices on which the step fits in one of the combinations of `around`'s space of so
/// many, and the next two numbers: 1, 2, 4, 8, then nodes. Each with its fastest setting.
[[nodiscard]] Largest fewest_devices(const model::ModelSpec& model, const StepConfig& base,
                                     const std::function<Around(std::int64_t world)>& around);
/// The built-in GPUs that the step fits, the smallest first, each with its fastest setting. What
/// `around` throws of a device (it has no FP8) leaves it out.
[[nodiscard]] Largest smallest_device(const model::ModelSpec& model, const StepConfig& base,
                                      const std::function<Around(const std::string& gpu)>& around);

}  // namespace ac_advisor::advise
