#pragma once

#include <cstddef>

namespace emulator::runtime {

/// Device memory of a __device__ or __constant__ variable, by the host's shadow of it. Null where
/// nothing registered it. Its bytes are part of the context.
char* address_of(const void* symbol);
std::size_t size_of(const void* symbol);

}  // namespace emulator::runtime
