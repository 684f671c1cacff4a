#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ac_advisor::trainer::cuda::device {

inline void check(cudaError_t error, const char* kernel) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA kernel ") + kernel + ": " + cudaGetErrorName(error) +
                           ": " + cudaGetErrorString(error));
}

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads, void* stream,
            const Arguments&... arguments) {
  kernel<<<grid, static_cast<unsigned>(threads), 0, static_cast<cudaStream_t>(stream)>>>(
      arguments...);
  check(cudaGetLastError(), name);
}

inline dim3 blocks(std::int64_t n) { return {static_cast<unsigned>(n)}; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Blocks of the kernel that run at once: a grid that loops has no more, so that none comes late.
template <class... Parameters>
std::int64_t resident_blocks(const char* name, void (*kernel)(Parameters...), int threads) {
  int device = 0, processors = 0, each = 0;
  check(cudaGetDevice(&device), name);
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), name);
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0), name);
  return static_cast<std::int64_t>(processors) * std::max(each, 1);
}

}  // namespace ac_advisor::trainer::cuda::device
