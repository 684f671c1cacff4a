#pragma once

#include <span>
#include <vector>

#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/clock.hpp"

namespace ac_advisor::simulate {

/// Seconds that one rank of a pipeline computes.
struct RankSeconds {
  struct Stage {
    double forward = 0, backward = 0;  ///< of one micro-batch, recomputation and loss included
    double input = 0, weights = 0;     ///< of a backward in two parts
  };
  std::vector<Stage> stages;  ///< that the rank has
  double after = 0;           ///< once a step: gradients are divided, the optimizer
};

/// Of a rank's walked program: means over the micro-batches that it does so with.
[[nodiscard]] RankSeconds rank_seconds(const passes::PipelineRank& rank, const StepTime& time);

/// Seconds that a message of `bytes` takes between each rank of the pipeline and the next, the last
/// and the first: over the links of a node or across the network.
[[nodiscard]] std::vector<double> message_seconds(std::int64_t bytes, const StepConfig& config,
                                                  const Device& device);

/// A step of the whole pipeline.
struct PipelineTime {
  double step = 0;
  double bubble = 0;  ///< share of the schedule's time that ranks wait, a mean over them
};
/// Each rank computes in its schedule's order, a stage's forward when the stage before has sent
/// what it made, a backward when the stage after has. Work that is the same for all micro-batches
/// makes a schedule periodic: long ones are extrapolated from shorter ones. `shape.rank` is not
/// read.
[[nodiscard]] PipelineTime pipeline_time(const passes::PipelineRank& shape,
                                         std::span<const RankSeconds> ranks,
                                         std::span<const double> messages);

/// What each rank computes when, by rank and in its order: nothing extrapolated.
[[nodiscard]] std::vector<profile::PipelineSlot> pipeline_slots(const passes::PipelineRank& shape,
                                                                std::span<const RankSeconds> ranks,
                                                                std::span<const double> messages);

}  // namespace ac_advisor::simulate
