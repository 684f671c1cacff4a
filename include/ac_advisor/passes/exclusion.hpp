#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// What a pass knows how to make a step of: a configuration whose layers are transformers', one
/// whose step is Megatron-core's, or a graph that was imported.
enum class Of : std::uint8_t {
  transformers = 1,
  megatron = 2,
  graph = 4,
  configuration = transformers | megatron,
  pytorch = transformers | graph,  ///< whose sharding and optimizers are PyTorch's or DeepSpeed's
  any = transformers | megatron | graph
};
[[nodiscard]] constexpr bool covers(Of all, Of one) {
  return (static_cast<unsigned>(all) & static_cast<unsigned>(one)) != 0;
}
/// Whose step this is.
[[nodiscard]] inline Of kind_of(const model::ModelSpec& spec, const StepConfig& config) {
  if (config.megatron()) return Of::megatron;
  return spec.graph ? Of::graph : Of::transformers;
}

/// A configuration that is refused. It stands beside the pass that refuses it; `validate`, the docs
/// and the tests read the one table of all of them. A message is "GIVEN: REASON; INSTEAD".
struct Exclusion {
  const char* options;  ///< as they are typed, values as letters: "--ac selective --shard ddp"
  const char* reason;
  const char* instead;  ///< the way out, a clause of its own
  bool (*refuses)(const model::ModelSpec& spec, const StepConfig& config);
  /// `options` with this configuration's values; null: as they are.
  std::string (*given)(const model::ModelSpec& spec, const StepConfig& config) = nullptr;
};

/// What kind of refusal a row is. Its reason says so: what "is not planned" lacks a mechanism here,
/// what the trainer does not run is planned for PyTorch, and all else mathematics, hardware or the
/// library forbids. That no step was compared is no reason: it is a grade (evidence.hpp).
enum class Refusal : std::uint8_t { impossible, unplanned, untrained };
[[nodiscard]] Refusal kind_of(const Exclusion& exclusion);

/// The exclusions of one pass, or of what runs the step.
struct ExclusionGroup {
  const char* of;
  std::span<const Exclusion> exclusions;
  Of asked = Of::pytorch;  ///< whose steps they are asked of
};

/// All of them, in the order in which they are asked.
[[nodiscard]] const std::vector<ExclusionGroup>& exclusions();
/// The first that refuses; null: none does.
[[nodiscard]] const Exclusion* find_exclusion(const model::ModelSpec& spec,
                                              const StepConfig& config);
[[nodiscard]] std::string message(const Exclusion& exclusion, const model::ModelSpec& spec,
                                  const StepConfig& config);
/// The table as Markdown: docs/exclusions.md, which a test compares with it.
[[nodiscard]] std::string exclusions_page();

}  // namespace ac_advisor::passes
