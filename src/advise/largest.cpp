#include "ac_advisor/advise/largest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "largest_fit.hpp"
#include "setting.hpp"

namespace ac_advisor::advise {
namespace {

constexpr std::int64_t sequence_unit = 128;

/// The plan, where nothing refuses the configuration and it fits.
std::optional<profile::Profile> fitting(const model::ModelSpec& model, const StepConfig& c) {
  if (passes::find_exclusion(model, c) != nullptr) return std::nullopt;
  profile::Profile planned = plan(model, c, false);
  if (!planned.fit.fits) return std::nullopt;
  return planned;
}

/// One setting's largest, in units of a sequence or of 128 tokens.
Found search(Sought sought, const model::ModelSpec& model, const Variants& variants,
             const StepConfig& base) {
  const bool batch = sought == Sought::batch;
  const std::int64_t unit = batch ? 1 : sequence_unit;
  const std::int64_t tokens = most_tokens / (batch ? base.run.seq : base.run.batch) / unit;
  const std::int64_t positions =
      batch || model.max_positions == 0 ? tokens + 1 : model.max_positions / unit;
  const std::int64_t most = std::min(tokens, positions);
  const auto with = [&](std::int64_t units) {
    StepConfig c = base;
    (batch ? c.run.batch : c.run.seq) = units * unit;
    return variants.settled(std::move(c));
  };
  // Some graphs have no batch of one.
  constexpr std::int64_t smallest_tried = 2;
  std::int64_t least = 1;
  while (least < std::min(most, smallest_tried) &&
         passes::find_exclusion(model, with(least)) != nullptr)
    ++least;
  const LargestFit largest =
      largest_fit(least, most, [&](std::int64_t units) { return tried(model, with(units)); });
  const StepConfig c = with(std::max(least, largest.value));
  return {setting(c), largest.value * unit, plan(model, c, false),
          largest.exact || largest.value == positions, unavailable(model, c)};
}

/// What fits first; what the framework has before what it lacks; more before less; the faster of
/// equal ones.
bool better(const Found& a, const Found& b) {
  if ((a.value > 0) != (b.value > 0)) return a.value > 0;
  if (a.unavailable.empty() != b.unavailable.empty()) return a.unavailable.empty();
  if (a.value != b.value) return a.value > b.value;
  return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
}

std::string peak_text(const profile::Profile& p) {
  return fmt::format("{:.2f} of {:.2f} GiB with context and margin",
                     static_cast<double>(p.fit.required) / (1 << 30),
                     static_cast<double>(p.fit.usable) / (1 << 30));
}

}  // namespace

Largest largest(Sought sought, const model::ModelSpec& model, const StepConfig& base,
                const Space& space) {
  Largest result{sought, base, {}, {}};
  Space one = space;
  one.keep("--batch", base);
  const Variants variants(model, base, one.hand);
  for (const StepConfig& c : combinations(model, base, one))
    result.found.push_back(search(sought, model, variants, c));
  if (result.found.empty()) throw UserError("--solve: no combination of the options is valid");
  std::stable_sort(result.found.begin(), result.found.end(), better);
  const Found& best = result.found.front();
  const bool batch = sought == Sought::batch;
  const std::string fixed =
      batch ? fmt::format("{} tokens each", base.run.seq) : fmt::format("batch {}", base.run.batch);
  if (best.value == 0)
    result.answer = fmt::format("nothing fits: {} on {} at {} needs {}", model.name,
                                base.device.gpu, fixed, peak_text(best.profile));
  else if (!best.unavailable.empty())
    result.answer =
        fmt::format("{} has none of what fits: {}", base.runtime.framework, best.unavailable);
  else
    result.answer =
        fmt::format("the largest {} of {} on {}, {}, is {}{}: {}, {}", batch ? "batch" : "sequence",
                    model.name, base.device.gpu, fixed, best.exact ? "" : "at least ", best.value,
                    best.label, peak_text(best.profile));
  return result;
}

Largest largest_model(const StepConfig& base,
                      const std::function<Space(const model::ModelSpec&)>& space_of) {
  Largest result{Sought::model, base, {}, {}};
  for (const std::string& name : model::sample_names()) {
    const model::ModelSpec model = model::load_model(name);
    Space space = space_of(model);
    space.keep("--batch", base);
    std::optional<Found> best;
    for (const StepConfig& c : combinations(model, base, space)) {
      auto planned = fitting(model, c);
      if (!planned) continue;
      Found found{name + " " + setting(c), model::parameter_count(model), *std::move(planned), true,
                  unavailable(model, c)};
      if (!best || better(found, *best)) best = std::move(found);
    }
    if (best) result.found.push_back(*std::move(best));
  }
  std::stable_sort(result.found.begin(), result.found.end(), better);
  const std::string at =
      fmt::format("{} at {} x {}", base.device.gpu, base.run.batch, base.run.seq);
  if (result.found.empty())
    result.answer = fmt::format("no sample model fits on {}", at);
  else if (const Found& best = result.found.front(); !best.unavailable.empty())
    result.answer =
        fmt::format("{} has none of what fits: {}", base.runtime.framework, best.unavailable);
  else
    result.answer = fmt::format("the largest sample model on {} is {}: {}", at, best.label,
                                peak_text(best.profile));
  return result;
}

}  // namespace ac_advisor::advise
