// The most sequences that fit. Reserved memory is not monotone in the batch: which segments the
// allocator can use again depends on how sizes round, so b may not fit where b + 2 does. What is
// allocated at the peak grows with the batch and is less than what is reserved: it bounds the
// search from above, and between the two every batch is tried.
#include "largest_batch.hpp"

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::advise {
namespace {

/// More than this a rank is nobody's step, and a chunked loss has an op a chunk.
constexpr std::int64_t most_tokens = std::int64_t{1} << 20;
/// Plans that one row is worth between the two bounds.
constexpr std::int64_t most_tried = 48;

struct Tried {
  bool valid = false;      ///< it can be planned
  bool allocates = false;  ///< what is allocated at the peak would fit
  bool fits = false;
};

}  // namespace

LargestBatch largest_batch(const model::ModelSpec& model, const Variants& variants,
                           const profile::Profile& at) {
  const std::int64_t most = std::max<std::int64_t>(1, most_tokens / at.config.run.seq);
  const auto attempt = [&](std::int64_t batch) {
    const StepConfig c = variants.with_batch(at.config, batch);
    Tried tried;
    tried.valid = passes::find_exclusion(model, c) == nullptr;
    if (!tried.valid) return tried;
    const profile::Profile p = plan(model, c, false);
    const profile::Fit& f = p.fit;
    tried.fits = f.fits;
    tried.allocates =
        f.required - p.memory.peak_reserved + p.memory.peak_allocated <= f.usable;
    return tried;
  };
  // The least batch whose allocated peak alone does not fit.
  std::int64_t fits = at.fit.fits ? at.config.run.batch : 0, allocates = fits, too_much = 0;
  for (std::int64_t b = std::max<std::int64_t>(1, at.config.run.batch); too_much == 0; b *= 2) {
    const std::int64_t batch = std::min(b, most);
    const Tried tried = attempt(batch);
    if (tried.fits) fits = std::max(fits, batch);
    if (!tried.allocates)
      too_much = batch;
    else
      allocates = std::max(allocates, batch);
    if (batch == most && tried.allocates) too_much = most + 1;
  }
  while (too_much - allocates > 1) {
    const std::int64_t middle = allocates + (too_much - allocates) / 2;
    const Tried tried = attempt(middle);
    if (tried.fits) fits = std::max(fits, middle);
    (tried.allocates ? allocates : too_much) = middle;
  }
  if (fits == 0) {  // below the base's batch, which may allocate too much
    std::int64_t low = 0, high = allocates;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (attempt(middle).fits ? low : high) = middle;
    }
    fits = low;
  }
  // From the top: what is reserved decides.
  std::int64_t tried = 0;
  for (std::int64_t b = allocates; b > fits; --b) {
    if (tried++ == most_tried) return {fits, false};
    if (attempt(b).fits) return {b, allocates < most};
  }
  return {fits, allocates < most};
}

}  // namespace ac_advisor::advise
