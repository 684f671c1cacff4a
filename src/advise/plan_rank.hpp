#pragma once

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "rank_simulation.hpp"

namespace ac_advisor::advise {

[[nodiscard]] inline std::int64_t at_peak(const profile::Profile& p, profile::Category category) {
  return p.memory.at_peak[static_cast<std::size_t>(category)];
}

/// That all ranks together see in a step.
[[nodiscard]] double tokens_of_step(const StepConfig& config);

/// One rank's step; its clock is that of the rank alone.
struct RankPlan {
  profile::Profile profile;
  simulate::StepTime time;
};
/// `shared`: its simulation, which is made or being made.
[[nodiscard]] RankPlan plan_rank(const model::ModelSpec& model, const StepConfig& config,
                                 bool detail, SharedRanks::Slot* shared = nullptr);

/// All ranks of a pipeline: the figures of the one that is asked for, what each holds, the
/// pipeline's time.
[[nodiscard]] profile::Profile plan_pipeline(const model::ModelSpec& model,
                                             const StepConfig& config, bool detail,
                                             SharedRanks* shared = nullptr);
/// The same of one of many configurations, without detail: `plan`, with what they share.
[[nodiscard]] profile::Profile plan_of_many(const model::ModelSpec& model, const StepConfig& config,
                                            SharedRanks& shared);
/// The rank of a pipeline with the highest allocated peak.
[[nodiscard]] std::int64_t highest_rank(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::advise
