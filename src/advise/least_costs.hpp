#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// What one micro-batch of a block, and of final norm, head and loss, takes at least.
struct LeastCosts {
  struct Seconds {
    double forward = 0, backward = 0;  ///< backward: with what is recomputed in it
  };
  Seconds block, head;
  std::int64_t saved = 0;  ///< bytes that a block leaves for its backward
};

/// Costs by simulation of one and of two blocks, alone on the ranks that share each layer, with a
/// host that takes no time: no shards to wait for, no collective beside a kernel, no stages. What a
/// layout adds to these ops can only delay them.
class ReferenceSteps {
 public:
  ReferenceSteps(const model::ModelSpec& model, const std::vector<StepConfig>& list);

  /// Null where no reference bounds the configuration.
  [[nodiscard]] const LeastCosts* find(StepConfig config, AcMode ac) const;

 private:
  bool applies_ = false;
  std::vector<std::pair<StepConfig, LeastCosts>> known_;
};

/// Seconds of a step that the clock can not go below: of each rank its micro-batches' forwards and
/// backwards, after the first one's way down to it and before the last one's way back. 0: unknown.
[[nodiscard]] double seconds_at_least(const model::ModelSpec& model, const StepConfig& config,
                                      const ReferenceSteps& references);

/// Blocks of `blocks` that every:K recomputes; all of them, or none, of the other modes.
[[nodiscard]] std::int64_t recomputed_blocks(const model::ModelSpec& model,
                                             const StepConfig& config, std::int64_t blocks);

}  // namespace ac_advisor::advise
