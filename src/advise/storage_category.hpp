#pragma once

#include <vector>

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// What each storage of the step counts as while it is alive, by StorageId. The rules are those of
/// a profile's `at_peak`.
[[nodiscard]] std::vector<profile::Category> storage_categories(const passes::StepProgram& step,
                                                                const passes::Schedule& schedule);

}  // namespace ac_advisor::advise
