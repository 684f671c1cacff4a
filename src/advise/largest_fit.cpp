// The most that fits. Whether the allocator finds its way within the device's memory is not
// monotone in the batch or the sequence: which segments it can use again, or give back, depends on
// how sizes round, so b may not fit where b + 2 does. What
// is allocated at the peak grows with b and is less than what is reserved: it bounds the search
// from above, and between the two every size is tried.
#include "largest_fit.hpp"

#include <algorithm>
#include <map>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "plan_rank.hpp"

namespace ac_advisor::advise {
namespace {

/// Plans that one answer is worth between the two bounds.
constexpr std::int64_t most_tried = 48;

}  // namespace

LargestFit largest_fit(std::int64_t from, std::int64_t most,
                       const std::function<Tried(std::int64_t)>& attempt) {
  std::map<std::int64_t, Tried> known;
  std::int64_t fits = 0;  // the most that was seen to
  const auto at = [&](std::int64_t size) {
    const auto found = known.find(size);
    if (found != known.end()) return found->second;
    const Tried result = attempt(size);
    if (result.fits) fits = std::max(fits, size);
    known.emplace(size, result);
    return result;
  };
  // The least that allocates too much is `above`.
  std::int64_t allocates = 0, above = most + 1;
  for (std::int64_t size = std::clamp<std::int64_t>(from, 1, std::max<std::int64_t>(most, 1));
       size < above; size = std::min(2 * size, most)) {
    if (!at(size).allocates) {
      above = size;
      break;
    }
    allocates = size;
    if (size == most) break;
  }
  while (above - allocates > 1) {
    const std::int64_t middle = allocates + (above - allocates) / 2;
    (at(middle).allocates ? allocates : above) = middle;
  }
  // Halving finds one that fits near the top, where nothing has shown one yet.
  for (std::int64_t low = fits, high = allocates + 1; high - low > 1;) {
    const std::int64_t middle = low + (high - low) / 2;
    (at(middle).fits ? low : high) = middle;
  }
  // From the top: what is reserved decides.
  std::int64_t tried = 0;
  for (std::int64_t size = allocates; size > fits; --size) {
    if (tried++ == most_tried) return {fits, false, {}};
    if (at(size).fits) break;
  }
  return {fits, allocates < most, {}};
}

Tried tried(const profile::Profile& planned) {
  const profile::Fit& fit = planned.fit;
  return {std::max(planned.memory.peak_allocated, fit.generation) <= fit.limit(), fit.fits};
}

Tried tried(const model::ModelSpec& model, const StepConfig& config, SharedRanks& ranks) {
  if (passes::find_exclusion(model, config) != nullptr) return {};
  return tried(plan_of_many(model, config, ranks));
}

LargestFit largest_batch(const model::ModelSpec& model, const Variants& variants,
                         const profile::Profile& at, SharedRanks& ranks) {
  const std::int64_t most = std::max<std::int64_t>(1, most_tokens / at.config.run.seq);
  const auto with = [&](std::int64_t batch) {
    StepConfig c = at.config;
    c.run.batch = batch;
    return variants.settled(std::move(c));
  };
  LargestFit found = largest_fit(at.config.run.batch, most, [&](std::int64_t batch) {
    return batch == at.config.run.batch ? tried(at) : tried(model, with(batch), ranks);
  });
  const std::string loss = loss_option(with(std::max<std::int64_t>(1, found.value)));
  if (found.value > 0 && loss != loss_option(at.config)) found.loss = loss;
  return found;
}

}  // namespace ac_advisor::advise
