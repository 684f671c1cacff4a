#pragma once

#include <cstddef>

/// A kernel of PyTorch that counts (nonzero, unique) copies its count to the host and allocates by
/// it. The count is known before, from the CPU; it is delivered in place of what the copy would
/// read.
namespace emulator::values {

/// Whether the calling thread's next copy of `bytes` bytes to the host was answered from what was
/// delivered; `to` then holds it.
bool take_delivery(void* to, std::size_t bytes) noexcept;

}  // namespace emulator::values
