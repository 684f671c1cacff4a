#pragma once

#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// The cumulative table in the documented one's form: baseline (one rank, plain cross-entropy, all
/// kept), + sharding, + activation checkpointing, + a loss without logits.
[[nodiscard]] std::vector<Saving> savings_table(const model::ModelSpec& model,
                                                const StepConfig& base,
                                                const std::optional<OptionList>& hand);

}  // namespace ac_advisor::advise
