#pragma once

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/clock.hpp"

namespace ac_advisor::advise {

/// That all ranks together see in a step.
[[nodiscard]] double tokens_of_step(const StepConfig& config);

/// One rank's step; its clock is that of the rank alone.
struct RankPlan {
  profile::Profile profile;
  simulate::StepTime time;
};
[[nodiscard]] RankPlan plan_rank(const model::ModelSpec& model, const StepConfig& config,
                                 bool detail);

/// All ranks of a pipeline: the figures of the one that is asked for, what each holds, the
/// pipeline's time.
[[nodiscard]] profile::Profile plan_pipeline(const model::ModelSpec& model,
                                             const StepConfig& config, bool detail);
/// The rank of a pipeline with the highest allocated peak.
[[nodiscard]] std::int64_t highest_rank(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::advise
