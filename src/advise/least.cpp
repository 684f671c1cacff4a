// The least that a step fits: how many devices, or which.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "needed.hpp"

namespace ac_advisor::advise {
namespace {

constexpr std::int64_t most_devices = 4096;

/// A number of devices, or a device.
struct Candidate {
  std::string name;        ///< as it is told: "16", "l40s"
  std::int64_t value = 0;  ///< devices, or bytes of one
};

/// Why no row of the sweep fits, or why it has none.
std::string why_not(const model::ModelSpec& model, const Around& around, const Sweep& swept) {
  if (!swept.rows.empty()) {
    const auto least = std::min_element(
        swept.rows.begin(), swept.rows.end(),
        [](const Row& a, const Row& b) { return a.profile.fit.required < b.profile.fit.required; });
    const profile::Fit& fit = least->profile.fit;
    return fmt::format("nothing fits: {} needs {:.1f} of {:.1f} GiB", least->label,
                       gibibytes(fit.required), gibibytes(fit.usable));
  }
  if (swept.too_large + swept.too_heavy > 0) return "nothing fits";
  if (const passes::Exclusion* excluded = passes::find_exclusion(model, around.base))
    return passes::message(*excluded, model, around.base);
  if (const std::string lacks = unavailable(model, around.base); !lacks.empty()) return lacks;
  return "no combination of the options is valid";
}

/// The fastest setting of the candidate that fits and that the framework has; else why there is
/// none, into `left_out`: also what `around` throws of it.
std::optional<Found> fastest(const model::ModelSpec& model, const Candidate& candidate,
                             const std::function<Around()>& around,
                             std::vector<NotPlanned>& left_out) {
  try {
    Around of = around();
    of.space.largest_batches = 0;
    of.space.available_alone = true;
    Sweep swept = sweep(model, of.base, of.space);
    if (swept.recommended < swept.rows.size()) {
      Row& best = swept.rows[swept.recommended];
      return Found{
          std::move(best.label), candidate.value, std::move(best.profile), true, "", false};
    }
    left_out.push_back({candidate.name, why_not(model, of, swept)});
  } catch (const UserError& error) {
    left_out.push_back({candidate.name, error.what()});
  }
  return std::nullopt;
}

/// 1, 2, 4, … within a node, then 1, 2, 3, 4, 6, 8, 12, … nodes.
std::vector<std::int64_t> numbers_of_devices(std::int64_t node) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t n = 1; n < node; n *= 2) numbers.push_back(n);
  for (std::int64_t nodes = 1; nodes * node <= most_devices; nodes *= 2) {
    numbers.push_back(nodes * node);
    if (nodes > 1) numbers.push_back(nodes / 2 * 3 * node);
  }
  return numbers;
}

std::string of_what(const StepConfig& base) {
  return fmt::format("batch {} x {}", base.run.batch, base.run.seq);
}

}  // namespace

Largest fewest_devices(const model::ModelSpec& model, const StepConfig& base,
                       const std::function<Around(std::int64_t world)>& around) {
  constexpr std::size_t shown = 3;
  Largest result{Sought::world, base, {}, {}, {}};
  const simulate::Device& device = simulate::find_device(base.device.gpu);
  for (const std::int64_t world : numbers_of_devices(device.ranks_of_node(base.layout.node_size))) {
    auto found = fastest(
        model, {std::to_string(world), world}, [&] { return around(world); }, result.left_out);
    if (found) result.found.push_back(*std::move(found));
    if (result.found.size() == shown) break;
  }
  if (result.found.empty()) {
    result.answer = fmt::format("{} at {} fits on no number of {} up to {}", model.name,
                                of_what(base), base.device.gpu, most_devices);
    return result;
  }
  const Found& best = result.found.front();
  result.answer =
      fmt::format("{} at {} fits on {} {}{}: {}, {}", model.name, of_what(base),
                  best.value > 1 ? fmt::format("{}", best.value) : "one", base.device.gpu,
                  best.value > 1 ? ", not on fewer" : "", best.label, needed(best.profile.fit));
  return result;
}

Largest smallest_device(const model::ModelSpec& model, const StepConfig& base,
                        const std::function<Around(const std::string& gpu)>& around) {
  Largest result{Sought::gpu, base, {}, {}, {}};
  for (const std::string& name : simulate::device_names()) {
    const simulate::Device& device = simulate::find_device(name);
    if (!device.cuda) continue;
    auto found = fastest(
        model, {name, device.memory_bytes}, [&] { return around(name); }, result.left_out);
    if (!found) continue;
    found->label = name + " " + found->label;
    result.found.push_back(*std::move(found));
  }
  std::stable_sort(result.found.begin(), result.found.end(), [](const Found& a, const Found& b) {
    if (a.value != b.value) return a.value < b.value;
    return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
  });
  const std::string on = base.layout.world > 1 ? fmt::format("{} of it", base.layout.world) : "one";
  if (result.found.empty()) {
    result.answer =
        fmt::format("{} at {} fits on {} of no built-in GPU", model.name, of_what(base), on);
    return result;
  }
  const Found& best = result.found.front();
  result.answer =
      fmt::format("the smallest GPU that {} at {} fits, on {}, has {:.0f} GiB: {}, {}", model.name,
                  of_what(base), on, gibibytes(best.value), best.label, needed(best.profile.fit));
  return result;
}

}  // namespace ac_advisor::advise
