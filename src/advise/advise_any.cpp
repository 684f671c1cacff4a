#include <fmt/format.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::advise {
namespace {

constexpr const char* splitting_framework = "torchtitan";

bool recommends(const Sweep& sweep) { return sweep.recommended < sweep.rows.size(); }

/// Absent: the options contradict each other, or what they say of the model is refused.
std::optional<Resolved> resolved_if_planned(const model::ModelSpec& model,
                                            const OptionList& by_hand) {
  try {
    Resolved resolved = resolve(model, by_hand);
    if (passes::find_exclusion(model, resolved.config) != nullptr) return std::nullopt;
    return resolved;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// The same options for the framework that splits layers; absent: it cannot take them, or the
/// model.
std::optional<Resolved> with_layouts(const model::ModelSpec& model, OptionList by_hand) {
  std::erase_if(by_hand, [](const auto& option) { return option.first == "--framework"; });
  by_hand.insert(by_hand.begin(), {"--framework", splitting_framework});
  return resolved_if_planned(model, by_hand);
}

/// The same options with shards on the host; absent: the framework has no such sharding, or the
/// options say otherwise.
std::optional<Resolved> with_shards_on_host(const model::ModelSpec& model, OptionList by_hand,
                                            const std::string& framework) {
  if (given(by_hand, "--offload")) return std::nullopt;
  by_hand.emplace_back("--offload", "parameters");
  if (!given(by_hand, "--shard"))
    by_hand.emplace_back("--shard", framework == "deepspeed" ? "zero3" : "fsdp2");
  return resolved_if_planned(model, by_hand);
}

/// Where nothing fits that stays on the device.
std::optional<Advice> advise_on_host(const model::ModelSpec& model, const Advice& first,
                                     const std::function<Space(const Resolved&)>& space) {
  const std::optional<Resolved> other =
      with_shards_on_host(model, first.resolved.options, first.resolved.config.runtime.framework);
  if (!other) return std::nullopt;
  Sweep on_host = sweep(model, other->config, space(*other));
  if (!recommends(on_host)) return std::nullopt;
  on_host.recommendation =
      "nothing fits that keeps shards on the device; --offload parameters keeps them on the "
      "host: " +
      on_host.recommendation;
  return Advice{*other, std::move(on_host), first.sweep.configurations};
}

}  // namespace

Advice advise_any(const model::ModelSpec& model, const Resolved& resolved,
                  const std::function<Space(const Resolved&)>& space) {
  const StepConfig& base = resolved.config;
  const std::string& framework = base.runtime.framework;
  Advice first{resolved, sweep(model, base, space(resolved)), 0};
  if (recommends(first.sweep) || base.layout.world == 1 || base.layout.tp > 1) return first;
  const bool named = given(resolved.options, "--framework");
  std::optional<Resolved> other;
  if (framework != splitting_framework) other = with_layouts(model, resolved.options);
  if (!other || named)
    if (auto on_host = advise_on_host(model, first, space)) return *std::move(on_host);
  if (!other) return first;
  if (named) {
    first.sweep.recommendation +=
        fmt::format("; --framework {} also splits layers over ranks", splitting_framework);
    return first;
  }
  Sweep layouts = sweep(model, other->config, space(*other));
  if (!recommends(layouts)) {
    if (auto on_host = advise_on_host(model, first, space)) return *std::move(on_host);
    first.sweep.recommendation +=
        fmt::format("; --framework {}, which splits layers over ranks: {}", splitting_framework,
                    layouts.recommendation);
    first.simulated_beside = layouts.configurations;
    return first;
  }
  layouts.recommendation = fmt::format(
      "nothing that {} has fits on {} ranks; --framework {} splits layers over them: {}", framework,
      base.layout.world, splitting_framework, layouts.recommendation);
  return {*other, std::move(layouts), first.sweep.configurations};
}

}  // namespace ac_advisor::advise
