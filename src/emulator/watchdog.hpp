#pragma once

namespace emulator {

/// Whether NCCL's watchdog, if this is its thread, is to see that what it asks for has ended.
/// Others always are. The watchdog of PyTorch's ProcessGroupNCCL looks every 100 ms, at any moment
/// of a step: what it has seen to end lets go of its tensors with the next collective.
bool sees_ends() noexcept;

}  // namespace emulator
