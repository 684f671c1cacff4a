#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// What `advise --solve` looks for on a device: sequences a rank, tokens a sequence, the sample
/// model of most parameters, or of GRPO tokens of a completion.
enum class Sought : std::uint8_t { batch, seq, model, completion };

/// One setting with the most of what was sought that fits.
struct Found {
  std::string label;         ///< "full lc-ce fused"; of a model its name and its fastest setting
  std::int64_t value = 0;    ///< sequences, tokens, or parameters; 0: not even the least fits
  profile::Profile profile;  ///< planned with it
  bool exact = true;         ///< off: a larger one was not tried and may fit
  std::string unavailable;   ///< why the framework cannot do this; empty: it can
  bool capped = false;       ///< the model has no more positions; memory is left
};

struct Largest {
  Sought sought = Sought::batch;
  StepConfig base;
  std::vector<Found>
      found;           ///< what the framework has first; most first; of equal ones the fastest
  std::string answer;  ///< a sentence
  /// Of `largest_model`: what of the samples is no row: "gemma-2-2b: …" and why.
  std::vector<NotPlanned> left_out;
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

}  // namespace ac_advisor::advise
