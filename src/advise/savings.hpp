#pragma once

#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// Fills `savings`, the cumulative table in the documented one's form: baseline (one rank, plain
/// cross-entropy, all kept), + sharding, + activation checkpointing, + a loss without logits; and
/// `not_planned`.
void add_savings(Sweep& sweep, const std::optional<OptionList>& hand);

}  // namespace ac_advisor::advise
