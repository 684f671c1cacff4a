// What CUDA 12's runtime answers that CUDA 13's does not: names that went with it, and a
// description of a device in its layout (driver_types.h of CUDA 12.8). All else has the same form
// in both, as far as PyTorch built for CUDA 12 calls it.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "emulator/loaded.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/runtime/device_attributes.hpp"

namespace emulator::runtime {
namespace {

/// cudaDeviceProp of CUDA 12. CUDA 13 dropped the clocks, the modes and what cooperates on several
/// devices, so everything behind them moved.
struct DeviceProperties12 {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luid_device_node_mask;
  std::size_t total_memory, shared_per_block;
  int registers_per_block, warp_size;
  std::size_t pitch;
  int threads_per_block, threads_dim[3], grid_size[3], clock_khz;
  std::size_t constant_bytes;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int device_overlap, multiprocessors, kernel_timeout, integrated, maps_host_memory, compute_mode;
  int textures_and_surfaces[39];
  std::size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc_driver, async_engines,
      unified_addressing, memory_clock_khz, memory_bus_bits, l2_bytes, persisting_l2_bytes,
      threads_per_multiprocessor, stream_priorities, global_l1, local_l1;
  std::size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory, multi_gpu_board, multi_gpu_board_group,
      host_native_atomics, single_to_double_ratio, pageable_memory_access,
      concurrent_managed_access, compute_preemption, host_pointer_for_registered,
      cooperative_launch, cooperative_multi_device_launch;
  std::size_t shared_per_block_optin;
  int pageable_by_host_tables, direct_managed_access, blocks_per_multiprocessor,
      access_policy_window;
  std::size_t reserved_shared_per_block;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools,
      gpu_direct_rdma;
  unsigned gpu_direct_flushes;
  int gpu_direct_ordering;
  unsigned pool_handle_types;
  int deferred_mapping, ipc_event, cluster_launch, unified_function_pointers;
  int reserved[63];
};
static_assert(offsetof(DeviceProperties12, surface_alignment) == 568 &&
                  offsetof(DeviceProperties12, shared_per_block_optin) == 696 &&
                  offsetof(DeviceProperties12, unified_function_pointers) == 776 &&
                  sizeof(DeviceProperties12) == 1032,
              "as a compiler lays out cudaDeviceProp of CUDA 12.8");

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  find_attribute(static_cast<int>(which), index, &value);
  return value;
}

DeviceProperties12 in_layout_of_12(const cudaDeviceProp& p, int index) {
  DeviceProperties12 q;
  std::memset(&q, 0, sizeof q);
  std::memcpy(q.name, p.name, sizeof q.name);
  q.uuid = p.uuid;
  q.total_memory = p.totalGlobalMem;
  q.shared_per_block = p.sharedMemPerBlock;
  q.registers_per_block = p.regsPerBlock;
  q.warp_size = p.warpSize;
  q.pitch = p.memPitch;
  q.threads_per_block = p.maxThreadsPerBlock;
  for (int i = 0; i < 3; ++i) {
    q.threads_dim[i] = p.maxThreadsDim[i];
    q.grid_size[i] = p.maxGridSize[i];
  }
  q.clock_khz = attribute(cudaDevAttrClockRate, index);
  q.constant_bytes = p.totalConstMem;
  q.major = p.major;
  q.minor = p.minor;
  q.texture_alignment = p.textureAlignment;
  q.texture_pitch_alignment = p.texturePitchAlignment;
  q.device_overlap = attribute(cudaDevAttrGpuOverlap, index);
  q.multiprocessors = p.multiProcessorCount;
  q.maps_host_memory = p.canMapHostMemory;
  q.surface_alignment = p.surfaceAlignment;
  q.concurrent_kernels = p.concurrentKernels;
  q.ecc = p.ECCEnabled;
  q.pci_bus = p.pciBusID;
  q.async_engines = p.asyncEngineCount;
  q.unified_addressing = p.unifiedAddressing;
  q.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, index);
  q.memory_bus_bits = p.memoryBusWidth;
  q.l2_bytes = p.l2CacheSize;
  q.persisting_l2_bytes = p.persistingL2CacheMaxSize;
  q.threads_per_multiprocessor = p.maxThreadsPerMultiProcessor;
  q.stream_priorities = p.streamPrioritiesSupported;
  q.global_l1 = p.globalL1CacheSupported;
  q.local_l1 = p.localL1CacheSupported;
  q.shared_per_multiprocessor = p.sharedMemPerMultiprocessor;
  q.registers_per_multiprocessor = p.regsPerMultiprocessor;
  q.managed_memory = p.managedMemory;
  q.single_to_double_ratio = attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio, index);
  q.concurrent_managed_access = p.concurrentManagedAccess;
  q.compute_preemption = p.computePreemptionSupported;
  q.host_pointer_for_registered = p.canUseHostPointerForRegisteredMem;
  q.cooperative_launch = p.cooperativeLaunch;
  q.shared_per_block_optin = p.sharedMemPerBlockOptin;
  q.blocks_per_multiprocessor = p.maxBlocksPerMultiProcessor;
  q.access_policy_window = p.accessPolicyMaxWindowSize;
  q.reserved_shared_per_block = p.reservedSharedMemPerBlock;
  q.host_register = p.hostRegisterSupported;
  q.memory_pools = p.memoryPoolsSupported;
  q.pool_handle_types = p.memoryPoolSupportedHandleTypes;
  q.ipc_event = p.ipcEventSupported;
  q.cluster_launch = p.clusterLaunch;
  q.unified_function_pointers = p.unifiedFunctionPointers;
  return q;
}

using GetVersion = cudaError_t (*)(int*);

/// A constant of the library's, which needs no driver.
int version_of(const char* library) {
  auto* get = reinterpret_cast<GetVersion>(own_function(library, "cudaRuntimeGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == cudaSuccess ? version : 0;
}

int find_runtime_version() {
  for (const char* library : {"libcudart.so.13", "libcudart.so.12"})
    if (const int version = version_of(library); version > 0) return version;
  return CUDART_VERSION;
}

}  // namespace

int runtime_version() {
  static const int version = find_runtime_version();
  return version;
}

int driver_version() { return std::max(CUDART_VERSION, runtime_version()); }

ANSWER cudaError_t cudaGetDeviceProperties_v2(DeviceProperties12* properties12, int index) {
  cudaDeviceProp p;
  const cudaError_t error = cudaGetDeviceProperties(&p, index);
  if (error == cudaSuccess) *properties12 = in_layout_of_12(p, index);
  return error;
}
ANSWER cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies,
                                               std::size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
ANSWER cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies,
                                               const cudaGraphEdgeData** edges,
                                               std::size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
ANSWER cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                          cudaGraphNode_t* dependencies,
                                                          const cudaGraphEdgeData* edges,
                                                          std::size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, edges, count, flags);
}
ANSWER cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start,
                                           cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
ANSWER cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }

}  // namespace emulator::runtime
