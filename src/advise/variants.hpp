#pragma once

#include <optional>

#include "ac_advisor/model/variant_options.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::advise {

/// Configurations that differ from a base in some options, each settled as if all had been typed.
class Variants {
 public:
  /// `hand`: what was given by hand; absent: options that give the base.
  Variants(const model::ModelSpec& model, const StepConfig& base,
           const std::optional<OptionList>& hand);
  /// The base with other values of some options; null where they contradict each other.
  [[nodiscard]] std::optional<StepConfig> with(OptionList values) const;
  /// One of them with another micro-batch, and what follows from it.
  [[nodiscard]] StepConfig with_batch(StepConfig config, std::int64_t batch) const;

 private:
  void settle_chunk(StepConfig& config) const;

  const model::ModelSpec& model_;
  const StepConfig& base_;
  OptionList hand_;
};

}  // namespace ac_advisor::advise
