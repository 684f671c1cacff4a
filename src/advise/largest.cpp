#include "ac_advisor/advise/largest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "largest_fit.hpp"
#include "needed.hpp"
#include "setting.hpp"

namespace ac_advisor::advise {
namespace {

/// Sequences are sought in coarse steps first, then in the fine ones between the largest that fits
/// and the next coarse one: 8 is what tensor cores' products of 16-bit types are aligned to.
constexpr std::int64_t coarse_tokens = 128, fine_tokens = 8;

/// The plan, where nothing refuses the configuration and it fits.
std::optional<profile::Profile> fitting(const model::ModelSpec& model, const StepConfig& c) {
  if (passes::find_exclusion(model, c) != nullptr) return std::nullopt;
  profile::Profile planned = plan(model, c, false);
  if (!planned.fit.fits) return std::nullopt;
  return planned;
}

/// One setting with other sizes of what is sought.
class Sized {
 public:
  Sized(Sought sought, const model::ModelSpec& model, const Variants& variants,
        const StepConfig& base, SharedRanks& ranks)
      : batch_(sought == Sought::batch),
        model_(model),
        variants_(variants),
        base_(base),
        ranks_(ranks) {}

  [[nodiscard]] StepConfig with(std::int64_t size) const {
    StepConfig c = base_;
    (batch_ ? c.run.batch : c.run.seq) = size;
    if (c.task.online()) c.task.completion = c.run.seq - c.task.prompt;
    return variants_.settled(std::move(c));
  }
  [[nodiscard]] bool taken(std::int64_t size) const {
    return passes::find_exclusion(model_, with(size)) == nullptr;
  }
  [[nodiscard]] Tried attempt(std::int64_t size) const { return tried(model_, with(size), ranks_); }
  /// Of as many tokens as anybody trains with, and of the model's positions.
  [[nodiscard]] std::int64_t most() const {
    const std::int64_t tokens = most_tokens / (batch_ ? base_.run.seq : base_.run.batch);
    return has_positions() ? std::min(tokens, model_.max_positions) : tokens;
  }
  [[nodiscard]] bool has_positions() const { return !batch_ && model_.max_positions > 0; }

 private:
  bool batch_;
  const model::ModelSpec& model_;
  const Variants& variants_;
  const StepConfig& base_;
  SharedRanks& ranks_;
};

/// The smallest step from `from` on that the layout takes (ranks that share a sequence ask for
/// multiples), up to the coarse one.
std::int64_t step_from(const Sized& sized, std::int64_t from) {
  std::int64_t step = fine_tokens;
  while (step < coarse_tokens && !sized.taken(from + step)) step *= 2;
  return step;
}

/// Between a size that fits and the next coarse one, which does not: the largest of fine steps.
std::int64_t refined(const Sized& sized, std::int64_t fits, std::int64_t most) {
  const std::int64_t end = std::min(most, fits + coarse_tokens - 1);
  const std::int64_t step = step_from(sized, fits);
  const std::int64_t steps = (end - fits) / step;
  if (steps < 1 || step >= coarse_tokens) return fits;
  // From the top: what is reserved is not monotone, and it is 15 plans at most.
  for (std::int64_t n = steps; n > 0; --n)
    if (sized.attempt(fits + n * step).fits) return fits + n * step;
  return fits;
}

/// One setting's largest.
Found search(Sought sought, const model::ModelSpec& model, const Variants& variants,
             const StepConfig& base, SharedRanks& ranks) {
  const Sized sized(sought, model, variants, base, ranks);
  const bool tokens = sought != Sought::batch;
  const std::int64_t unit = tokens ? coarse_tokens : 1, most = sized.most();
  // A sequence is longer than its prompt; some graphs have no batch of one.
  std::int64_t least = tokens ? base.task.prompt / unit + 1 : 1;
  if (least < most / unit && !sized.taken(least * unit)) ++least;
  const LargestFit largest =
      largest_fit(least, std::max<std::int64_t>(1, most / unit),
                  [&](std::int64_t units) { return sized.attempt(units * unit); });
  std::int64_t value = largest.value * unit;
  if (tokens && (largest.exact || value + unit > most)) value = refined(sized, value, most);
  const bool capped =
      sized.has_positions() && value > 0 && value + step_from(sized, value) > model.max_positions;
  const StepConfig c = sized.with(value > 0 ? value : least * unit);
  const std::int64_t found =
      sought == Sought::completion ? std::max<std::int64_t>(0, value - base.task.prompt) : value;
  return {setting(c), found, plan(model, c, false), largest.exact || capped, unavailable(model, c),
          capped};
}

/// What fits first; what the framework has before what it lacks; more before less; the faster of
/// equal ones.
bool better(const Found& a, const Found& b) {
  if ((a.value > 0) != (b.value > 0)) return a.value > 0;
  if (a.unavailable.empty() != b.unavailable.empty()) return a.unavailable.empty();
  if (a.value != b.value) return a.value > b.value;
  return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
}

}  // namespace

Largest largest(Sought sought, const model::ModelSpec& model, const StepConfig& base,
                const Space& space) {
  Largest result{sought, base, {}, {}, {}};
  Space one = space;
  one.keep("--batch", base);
  const Variants variants(model, base, one.hand);
  SharedRanks ranks;
  for (const StepConfig& c : combinations(model, base, one))
    result.found.push_back(search(sought, model, variants, c, ranks));
  if (result.found.empty()) throw UserError("--solve: no combination of the options is valid");
  std::stable_sort(result.found.begin(), result.found.end(), better);
  const Found& best = result.found.front();
  const bool batch = sought == Sought::batch;
  const char* const of = batch ? "batch" : sought == Sought::seq ? "sequence" : "completion";
  const std::string fixed =
      batch ? fmt::format("{} tokens each", base.run.seq)
      : sought == Sought::completion
          ? fmt::format("batch {}, prompts of {}", base.run.batch, base.task.prompt)
          : fmt::format("batch {}", base.run.batch);
  if (best.value == 0)
    result.answer = fmt::format("nothing fits: {} on {} at {} needs {}", model.name,
                                base.device.gpu, fixed, needed(best.profile.fit));
  else if (!best.unavailable.empty())
    result.answer =
        fmt::format("{} has none of what fits: {}", base.runtime.framework, best.unavailable);
  else
    result.answer = fmt::format(
        "the largest {} of {} on {}, {}, is {}{}: {}, {}{}", of, model.name, base.device.gpu, fixed,
        best.exact ? "" : "at least ", best.value, best.label, needed(best.profile.fit),
        best.capped ? fmt::format("; not memory but the model ends it: max_position_embeddings is "
                                  "{}, and --seq takes more",
                                  model.max_positions)
                    : "");
  return result;
}

Largest largest_model(const StepConfig& base,
                      const std::function<Around(const model::ModelSpec&)>& around) {
  Largest result{Sought::model, base, {}, {}, {}};
  for (const std::string& name : model::sample_names()) {
    const model::ModelSpec model = model::load_model(name);
    Around of = around(model);
    of.space.keep("--batch", of.base);
    std::optional<Found> best;
    const std::vector<StepConfig> list = combinations(model, of.base, of.space);
    for (const StepConfig& c : list) {
      auto planned = fitting(model, c);
      if (!planned) continue;
      Found found{name + " " + setting(c), model::parameter_count(model),
                  *std::move(planned),     true,
                  unavailable(model, c),   false};
      if (!best || better(found, *best)) best = std::move(found);
    }
    const passes::Exclusion* excluded = passes::find_exclusion(model, of.base);
    if (best)
      result.found.push_back(*std::move(best));
    else if (list.empty() && excluded != nullptr)
      result.left_out.push_back({name, passes::message(*excluded, model, of.base)});
    else
      result.left_out.push_back(
          {name, list.empty() ? "no combination of the options is valid" : "does not fit"});
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
                                needed(best.profile.fit));
  return result;
}

}  // namespace ac_advisor::advise
