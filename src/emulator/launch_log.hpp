#pragma once

/// When each kernel, memset and copy on the device was launched, for who asks which op launched it
/// (python/ac_advisor/capture). Off until it is asked for.
namespace emulator::launch_log {

/// One launch, now.
void note() noexcept;

}  // namespace emulator::launch_log
