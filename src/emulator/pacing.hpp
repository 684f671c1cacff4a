#pragma once

namespace emulator {

/// Waits AC_ADVISOR_EMULATOR_PACE microseconds after a launch (0): what watches the device by the
/// clock, such as NCCL's watchdog, sees a step that is not over at once.
void pace() noexcept;

}  // namespace emulator
