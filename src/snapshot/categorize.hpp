#pragma once

#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "steps.hpp"

namespace ac_advisor::snapshot {

/// What each allocation of a history is for, in their order: by its stack, by where in a step it
/// begins and ends, and by its size where several would fit. `unknown` where nothing tells.
[[nodiscard]] std::vector<profile::Category> categories(const Snapshot& snapshot,
                                                        const History& history, const Steps& steps,
                                                        const std::vector<std::uint16_t>& marks);

}  // namespace ac_advisor::snapshot
