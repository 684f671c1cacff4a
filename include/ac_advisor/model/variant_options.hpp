#pragma once

#include <memory>
#include <optional>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor {

/// Sequences of a step over all ranks. It sets the micro-batches of a step, or --batch where those
/// are given, so a configuration has no field of it.
inline constexpr const char* global_batch_option = "--global-batch";

/// One of many configurations that are tried: `variant` over what was given by hand, settled as if
/// all of it had been typed. What `hand` has and the variant cannot have (--keep-last-block beside
/// --shard ddp) yields, as a preset's choice does. Throws UserError where the variant contradicts
/// itself.
[[nodiscard]] StepConfig resolve_variant(const OptionList& hand, const OptionList& variant);

/// The same of many variants over one list, which is read once.
class VariantResolver {
 public:
  /// Throws UserError for what cannot be read.
  explicit VariantResolver(const OptionList& hand);
  [[nodiscard]] StepConfig with(const OptionList& variant) const;

 private:
  struct Read;
  OptionList hand_;
  std::shared_ptr<const Read> read_;
};

/// What to type to get a configuration, as few options as are needed; null when no options do.
[[nodiscard]] std::optional<OptionList> options_of(const StepConfig& config);
/// Every option in words, but for flags that are off and have no opposite.
[[nodiscard]] OptionList all_options_of(const StepConfig& config);

}  // namespace ac_advisor
