#pragma once

#include <cuda_runtime_api.h>

#include "emulator/answer.hpp"

namespace emulator::runtime {

/// Remembers an error for cudaGetLastError, as every function of the runtime does.
cudaError_t fail(cudaError_t error) noexcept;

/// The runtime's that the program brings; without one, that whose headers this was built with.
int runtime_version();
/// No older than the program's runtime.
int driver_version();

}  // namespace emulator::runtime
