#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ac_advisor/profile/profile.hpp"
#include "rank_simulation.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {

/// One size that was planned.
struct Tried {
  bool allocates = false;  ///< what is allocated at the peak alone would fit
  bool fits = false;       ///< and so it does in the segments that the allocator has
};

struct LargestFit {
  std::int64_t value = 0;  ///< 0: not even 1
  bool exact = true;       ///< off: a larger one was not tried and may fit
  std::string loss;        ///< with which it was planned, where that is not the one asked about
};

/// The most of 1..`most` that fits, sought from `from` on. What is allocated must grow with it.
[[nodiscard]] LargestFit largest_fit(std::int64_t from, std::int64_t most,
                                     const std::function<Tried(std::int64_t)>& attempt);

/// What a planned step allocates and reserves, against its device.
[[nodiscard]] Tried tried(const profile::Profile& planned);
/// The same of a configuration; what is refused neither allocates nor fits.
[[nodiscard]] Tried tried(const model::ModelSpec& model, const StepConfig& config,
                          SharedRanks& ranks);

/// The most sequences a micro-batch that fit the device, all else as in `at`, of at most 1 Mi
/// tokens.
[[nodiscard]] LargestFit largest_batch(const model::ModelSpec& model, const Variants& variants,
                                       const profile::Profile& at, SharedRanks& ranks);

/// More tokens a micro-batch than this are nobody's step, and a chunked loss has an op a chunk.
inline constexpr std::int64_t most_tokens = std::int64_t{1} << 20;

}  // namespace ac_advisor::advise
