#pragma once

#include <cuda_runtime_api.h>

#include "emulator/answer.hpp"

namespace emulator::runtime {

/// Remembers an error for cudaGetLastError, as every function of the runtime does.
cudaError_t fail(cudaError_t error) noexcept;

}  // namespace emulator::runtime
