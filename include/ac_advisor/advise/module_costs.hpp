#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// What checkpointing every module of one kind does to one micro-batch: the difference of two
/// planned programs, one that recomputes nothing and one in which each module of the kind is a
/// region of its own.
struct ModuleCost {
  std::string kind;              ///< "norms"
  std::int64_t kept_bytes = 0;   ///< that its ops leave for backward where nothing is recomputed
  std::int64_t saved_bytes = 0;  ///< fewer left for backward, all kinds together
  double recompute_seconds = 0;  ///< of its forward, once more
  std::int64_t peak_bytes = 0;   ///< allocated in the step that recomputes this kind alone
  std::int64_t peak_saved_bytes = 0;  ///< against the step that recomputes nothing

  /// 0: nothing is saved. What is saved for no time at all is first: infinity.
  [[nodiscard]] double saved_bytes_per_millisecond() const;
};

struct ModuleCosts {
  std::vector<ModuleCost> kinds;          ///< the one to checkpoint first is first
  std::int64_t kept_elsewhere_bytes = 0;  ///< residual sums, rotated queries and keys
};

/// Norms, projections, attention core, MLP, whole block, embedding, loss: in the order to
/// checkpoint them, most bytes saved for a millisecond first. A kind that cannot be a region here
/// is left out; all are where the step that recomputes nothing is not planned. Throws UserError.
[[nodiscard]] ModuleCosts module_costs(const model::ModelSpec& model, const StepConfig& config);

/// "norms, then whole block": the kinds that save something, in their order.
[[nodiscard]] std::string checkpoint_order(const ModuleCosts& costs);

}  // namespace ac_advisor::advise
