#include "ac_advisor/advise/largest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::advise {
namespace {

/// More than this a rank is nobody's step, and a chunked loss has an op a chunk.
constexpr std::int64_t most_tokens = std::int64_t{1} << 20;
constexpr std::int64_t sequence_unit = 128;

std::string setting(const StepConfig& c) {
  std::string text = ac_option(c) + " " + loss_option(c) + " " + to_option(c.memory.kernels);
  if (c.layout.world > 1) text += " " + shard_option(c);
  return text;
}

StepConfig with(StepConfig c, Sought sought, std::int64_t value) {
  (sought == Sought::batch ? c.run.batch : c.run.seq) = value;
  return c;
}

/// The plan, where nothing refuses the configuration and it fits.
std::optional<profile::Profile> fitting(const model::ModelSpec& model, const StepConfig& c) {
  if (passes::find_exclusion(model, c) != nullptr) return std::nullopt;
  profile::Profile planned = plan(model, c, false);
  if (!planned.fit.fits) return std::nullopt;
  return planned;
}

/// Doubling, then halving the interval, in units. Memory grows with what is sought.
Found search(Sought sought, const model::ModelSpec& model, const StepConfig& base) {
  const std::int64_t other = sought == Sought::batch ? base.run.seq : base.run.batch;
  const std::int64_t unit = sought == Sought::batch ? 1 : sequence_unit;
  std::int64_t most = most_tokens / other / unit;
  if (sought == Sought::seq && model.max_positions > 0)
    most = std::min(most, model.max_positions / unit);
  Found found{setting(base), 0, {}};
  std::int64_t low = 0, high = 1;
  const auto fits = [&](std::int64_t units) {
    auto planned = fitting(model, with(base, sought, units * unit));
    if (planned) found.profile = *std::move(planned);
    return planned.has_value();
  };
  for (; high <= most && fits(high); high *= 2) low = high;
  high = std::min(high, most + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  found.value = low * unit;
  if (low == 0) found.profile = plan(model, with(base, sought, unit), false);
  return found;
}

void order(std::vector<Found>& found) {
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.value != b.value) return a.value > b.value;
    return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
  });
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
  for (const StepConfig& c : combinations(model, base, one))
    result.found.push_back(search(sought, model, c));
  if (result.found.empty()) throw UserError("--solve: no combination of the options is valid");
  order(result.found);
  const Found& best = result.found.front();
  const bool batch = sought == Sought::batch;
  const std::string fixed =
      batch ? fmt::format("{} tokens each", base.run.seq) : fmt::format("batch {}", base.run.batch);
  result.answer = best.value == 0
                      ? fmt::format("nothing fits: {} on {} at {} needs {}", model.name,
                                    base.device.gpu, fixed, peak_text(best.profile))
                      : fmt::format("the largest {} of {} on {}, {}, is {}: {}, {}",
                                    batch ? "batch" : "sequence", model.name, base.device.gpu,
                                    fixed, best.value, best.label, peak_text(best.profile));
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
      if (best && best->profile.time.tokens_per_second >= planned->time.tokens_per_second) continue;
      best = Found{name + " " + setting(c), model::parameter_count(model), *std::move(planned)};
    }
    if (best) result.found.push_back(*std::move(best));
  }
  order(result.found);
  const std::string at =
      fmt::format("{} at {} x {}", base.device.gpu, base.run.batch, base.run.seq);
  result.answer = result.found.empty() ? fmt::format("no sample model fits on {}", at)
                                       : fmt::format("the largest sample model on {} is {}: {}", at,
                                                     result.found.front().label,
                                                     peak_text(result.found.front().profile));
  return result;
}

}  // namespace ac_advisor::advise
