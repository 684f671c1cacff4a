#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/variant_options.hpp"

namespace ac_advisor::advise {

/// Liger's fused loss chooses its chunk by the batch, and a preset's file can only name one: the
/// configuration gets `liger_chunk`. False: it has another loss, or the loss was given by hand.
bool settle_chunk(const model::ModelSpec& model, const OptionList& by_hand, StepConfig& config);

/// Blocks of each stage where Megatron's stages cannot have as many each: the last has the rest
/// (--decoder-last-pipeline-num-layers). Empty: they can, or the last would have none.
[[nodiscard]] std::vector<std::int64_t> uneven_stages(const model::ModelSpec& model,
                                                      const Layout& layout);

/// Configurations that differ from a base in some options, each settled as if all had been typed.
class Variants {
 public:
  /// `hand`: what was given by hand; absent: options that give the base.
  Variants(const model::ModelSpec& model, const StepConfig& base,
           const std::optional<OptionList>& hand);
  /// The base with other values of some options; null where they contradict each other.
  [[nodiscard]] std::optional<StepConfig> with(OptionList values) const;
  /// One of them whose micro-batch, sequence or stages were set, and what follows from that.
  [[nodiscard]] StepConfig settled(StepConfig config) const;

 private:
  [[nodiscard]] bool takes_others_layers(const StepConfig& config) const;

  const model::ModelSpec& model_;
  const StepConfig& base_;
  OptionList hand_;
  std::optional<VariantResolver> resolver_;  ///< none: what was given by hand contradicts itself
};

}  // namespace ac_advisor::advise
