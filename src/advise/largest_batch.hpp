#pragma once

#include "ac_advisor/profile/profile.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {

struct LargestBatch {
  std::int64_t batch = 0;  ///< that fits; 0: not even 1
  bool exact = true;       ///< off: a larger one was not tried and may fit
};

/// The most sequences a micro-batch that fit the device, all else as in `at`, of at most 1 Mi
/// tokens.
[[nodiscard]] LargestBatch largest_batch(const model::ModelSpec& model, const Variants& variants,
                                         const profile::Profile& at);

}  // namespace ac_advisor::advise
