#pragma once

#include "observe.hpp"

namespace ac_advisor::gate {

/// Runs the case's command on its emulated device, in the folder of the gate's file; what it prints
/// goes to the standard error. For the main thread.
[[nodiscard]] Observation observe_emulated(const GateFile& file, const Case& c);

}  // namespace ac_advisor::gate
