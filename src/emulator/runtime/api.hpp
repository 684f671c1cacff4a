#pragma once

#include <cuda_runtime_api.h>

#include "emulator/answer.hpp"

namespace emulator::runtime {

/// Remembers an error for cudaGetLastError, as every function of the runtime does.
cudaError_t fail(cudaError_t error) noexcept;

/// The runtime's that the program brings: CUDA 12's, or the one whose headers this was built with.
int runtime_version();

}  // namespace emulator::runtime
