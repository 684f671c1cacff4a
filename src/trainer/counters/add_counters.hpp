#pragma once

#include "ac_advisor/profile/profile.hpp"
#include "trainer/counters/counters.hpp"

namespace ac_advisor::trainer {

/// Puts the DRAM's figures of one step into a measured profile: by phase in `instruments`, read and
/// written together in kernels.bytes. Ranges are named as profile::phase_names; what was not
/// counted is absent, with the reason.
void add_counters(profile::Profile& profile, const Counted& counted);

}  // namespace ac_advisor::trainer
