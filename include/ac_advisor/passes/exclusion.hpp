#pragma once

#include <span>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

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

/// The exclusions of one pass, or of what runs the step.
struct ExclusionGroup {
  const char* of;
  std::span<const Exclusion> exclusions;
  bool graphs_alone = false;  ///< asked of imported graphs only
  bool of_megatron = false;   ///< asked of Megatron-core's steps; the others are of PyTorch's
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
