#pragma once

#include <vector>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

struct PlannedTensor {
  profile::LiveTensor tensor;
  bool in_backward = false;  ///< made by an op of backward, recomputation or the optimizer
};

/// Every tensor that the planned step holds at its peak, in the order in which they are made, with
/// cuBLAS's workspaces last. Throws UserError.
[[nodiscard]] std::vector<PlannedTensor> live_at_peak(const model::ModelSpec& model,
                                                      const StepConfig& config);

}  // namespace ac_advisor::advise
