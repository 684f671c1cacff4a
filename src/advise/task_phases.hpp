#pragma once

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// Of a step of several phases (GRPO: completions are written and scored before they are trained
/// on) what is on the device in each, and whether all of them fit. `result` is the plan of the
/// phase that trains. With `detail` the largest tensor of each is named.
void add_task_phases(profile::Profile& result, bool detail);

}  // namespace ac_advisor::advise
