#include "emulator/kernel.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/device.hpp"
#include "emulator/occupancy.hpp"
#include "emulator/runtime/api.hpp"

namespace emulator::runtime {
namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local Configuration pushed[8];
thread_local int depth = 0;

Dim dim(const dim3& d) { return {d.x, d.y, d.z}; }

cudaError_t error_of(LaunchError error) {
  switch (error) {
    case LaunchError::none:
      return cudaSuccess;
    case LaunchError::invalid_configuration:
      return fail(cudaErrorInvalidConfiguration);
    case LaunchError::no_image:
      return fail(cudaErrorNoKernelImageForDevice);
    case LaunchError::invalid_value:
      break;
  }
  return fail(cudaErrorInvalidValue);
}

cudaError_t start(const void* function, dim3 grid, dim3 block, std::size_t shared,
                  cudaStream_t stream) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const LaunchError error = check_launch(*kernel, dim(grid), dim(block), shared);
  if (error == LaunchError::none) launch(*kernel, stream);
  return error_of(error);
}

}  // namespace

ANSWER unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                            cudaStream_t stream) {
  if (depth < 8) pushed[depth++] = {grid, block, shared, stream};
  return 0;
}
ANSWER cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared,
                                              void* stream) {
  if (depth == 0) return fail(cudaErrorMissingConfiguration);
  const Configuration& c = pushed[--depth];
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

ANSWER cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**,
                                    std::size_t shared, cudaStream_t stream) {
  return start(function, grid, block, shared, stream);
}
ANSWER cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**,
                                               std::size_t shared, cudaStream_t stream) {
  return start(function, grid, block, shared, stream);
}
ANSWER cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void**) {
  return start(function, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
}
ANSWER cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* function) {
  Kernel* kernel = find_kernel(function);
  *handle = reinterpret_cast<cudaKernel_t>(kernel);
  return kernel == nullptr ? fail(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}
ANSWER cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* function) {
  return __cudaGetKernel(handle, function);
}
ANSWER cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                                      std::size_t shared, cudaStream_t stream) {
  return start(kernel, grid, block, shared, stream);
}
ANSWER cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* function) {
  Kernel* kernel = find_kernel(function);
  *handle = reinterpret_cast<cudaFunction_t>(kernel);
  return kernel == nullptr ? fail(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}
ANSWER cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

ANSWER cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const Resources& r = resources(*kernel);
  std::memset(a, 0, sizeof *a);
  a->sharedSizeBytes = static_cast<std::size_t>(r.static_shared_bytes);
  a->constSizeBytes = static_cast<std::size_t>(r.constant_bytes);
  a->localSizeBytes = static_cast<std::size_t>(r.local_bytes);
  a->maxThreadsPerBlock = max_threads(r);
  a->numRegs = r.registers;
  a->ptxVersion = a->binaryVersion = r.binary_version;
  a->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared_bytes;
  a->preferredShmemCarveout = -1;
  return cudaSuccess;
}
ANSWER cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                        int value) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const int most = capability().shared_per_block_optin - resources(*kernel).static_shared_bytes;
  if (value < 0 || value > most) return fail(cudaErrorInvalidValue);
  kernel->max_dynamic_shared_bytes = value;
  return cudaSuccess;
}
ANSWER cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }

ANSWER cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, std::size_t shared, unsigned) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  if (threads <= 0) return fail(cudaErrorInvalidValue);
  *blocks = blocks_per_multiprocessor(resources(*kernel), threads, shared);
  return cudaSuccess;
}
ANSWER cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                 int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}
ANSWER cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                  const cudaLaunchConfig_t* c) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const int threads = static_cast<int>(c->blockDim.x * c->blockDim.y * c->blockDim.z);
  *clusters = active_clusters(resources(*kernel), threads, c->dynamicSmemBytes, 1);
  return cudaSuccess;
}

}  // namespace emulator::runtime
