#pragma once

#include <string>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::reports {

/// Whether the step fits its device, what PyTorch's allocator does there, and where it is out of
/// memory: one line or a few, without an end.
[[nodiscard]] std::string room_text(const profile::Profile& profile);

/// The phase beside the update, of a step of several, that needs what the step needs; the first of
/// such. Null: the update does.
[[nodiscard]] const profile::TaskPhase* deciding_phase(const profile::Profile& profile);

}  // namespace ac_advisor::reports
