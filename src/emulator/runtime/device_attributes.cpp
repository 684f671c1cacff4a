#include "emulator/runtime/device_attributes.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/device.hpp"

namespace emulator::runtime {
namespace {

/// Limits that all devices since Volta share: CUDA C++ Programming Guide 13.0, "Technical
/// Specifications per Compute Capability"; textures' are left at 0, as no tensor program asks.
constexpr int max_threads_per_block = 1024, shared_per_block = 48 << 10, registers = 65536,
              constant_bytes = 64 << 10, warp = 32;
/// What the driver keeps of each block's shared memory: the guide's section on compute capability
/// 8.x and later.
constexpr int reserved_shared = 1024;

struct Attribute {
  int number;
  int (*value)(int index);
};
const Attribute attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, [](int) { return max_threads_per_block; }},
    {cudaDevAttrMaxBlockDimX, [](int) { return 1024; }},
    {cudaDevAttrMaxBlockDimY, [](int) { return 1024; }},
    {cudaDevAttrMaxBlockDimZ, [](int) { return 64; }},
    {cudaDevAttrMaxGridDimX, [](int) { return 2147483647; }},
    {cudaDevAttrMaxGridDimY, [](int) { return 65535; }},
    {cudaDevAttrMaxGridDimZ, [](int) { return 65535; }},
    {cudaDevAttrMaxSharedMemoryPerBlock, [](int) { return shared_per_block; }},
    {cudaDevAttrTotalConstantMemory, [](int) { return constant_bytes; }},
    {cudaDevAttrWarpSize, [](int) { return warp; }},
    {cudaDevAttrMaxPitch, [](int) { return 2147483647; }},
    {cudaDevAttrMaxRegistersPerBlock, [](int) { return registers; }},
    {cudaDevAttrClockRate, [](int) { return device().clock_khz; }},
    {cudaDevAttrTextureAlignment, [](int) { return 512; }},
    {cudaDevAttrGpuOverlap, [](int) { return 1; }},
    {cudaDevAttrMultiProcessorCount, [](int) { return device().multiprocessors; }},
    {cudaDevAttrCanMapHostMemory, [](int) { return 1; }},
    {cudaDevAttrSurfaceAlignment, [](int) { return 512; }},
    {cudaDevAttrConcurrentKernels, [](int) { return 1; }},
    {cudaDevAttrEccEnabled, [](int) { return 1; }},
    {cudaDevAttrPciBusId, [](int index) { return 0x18 + index; }},
    {cudaDevAttrMemoryClockRate, [](int) { return device().memory_clock_khz; }},
    {cudaDevAttrGlobalMemoryBusWidth, [](int) { return device().memory_bus_bits; }},
    {cudaDevAttrL2CacheSize, [](int) { return static_cast<int>(device().l2_bytes); }},
    {cudaDevAttrMaxThreadsPerMultiProcessor,
     [](int) { return capability().threads_per_multiprocessor; }},
    {cudaDevAttrAsyncEngineCount, [](int) { return 3; }},
    {cudaDevAttrUnifiedAddressing, [](int) { return 1; }},
    {cudaDevAttrTexturePitchAlignment, [](int) { return 32; }},
    {cudaDevAttrComputeCapabilityMajor, [](int) { return device().major; }},
    {cudaDevAttrComputeCapabilityMinor, [](int) { return device().minor; }},
    {cudaDevAttrStreamPrioritiesSupported, [](int) { return 1; }},
    {cudaDevAttrGlobalL1CacheSupported, [](int) { return 1; }},
    {cudaDevAttrLocalL1CacheSupported, [](int) { return 1; }},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor,
     [](int) { return capability().shared_per_multiprocessor; }},
    {cudaDevAttrMaxRegistersPerMultiprocessor, [](int) { return registers; }},
    {cudaDevAttrManagedMemory, [](int) { return 1; }},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, [](int) { return 2; }},
    {cudaDevAttrConcurrentManagedAccess, [](int) { return 1; }},
    {cudaDevAttrComputePreemptionSupported, [](int) { return 1; }},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, [](int) { return 1; }},
    {cudaDevAttrCooperativeLaunch, [](int) { return 1; }},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin,
     [](int) { return capability().shared_per_block_optin; }},
    {cudaDevAttrCanFlushRemoteWrites, [](int) { return 1; }},
    {cudaDevAttrHostRegisterSupported, [](int) { return 1; }},
    {102, [](int) { return 1; }},  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    {103, [](int) { return 1; }},  // …_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    {cudaDevAttrMaxBlocksPerMultiprocessor,
     [](int) { return capability().blocks_per_multiprocessor; }},
    {cudaDevAttrMaxPersistingL2CacheSize,
     [](int) { return static_cast<int>(device().l2_bytes / 8 * 5); }},
    {cudaDevAttrMaxAccessPolicyWindowSize, [](int) { return 128 << 20; }},
    {cudaDevAttrReservedSharedMemoryPerBlock, [](int) { return reserved_shared; }},
    {cudaDevAttrMemoryPoolsSupported, [](int) { return 1; }},
    {cudaDevAttrMemoryPoolSupportedHandleTypes, [](int) { return 1; }},
    {cudaDevAttrClusterLaunch, [](int) { return capability().clusters ? 1 : 0; }},
    {cudaDevAttrIpcEventSupport, [](int) { return 1; }},
    {cudaDevAttrMemSyncDomainCount, [](int) { return device().major >= 9 ? 4 : 1; }},
    {127, [](int) { return capability().tensor_maps ? 1 : 0; }},  // …_TENSOR_MAP_ACCESS_SUPPORTED
    {129, [](int) { return 1; }},                                 // …_UNIFIED_FUNCTION_POINTERS
    {cudaDevAttrNumaId, [](int) { return -1; }},
    {cudaDevAttrHostNumaId, [](int) { return 0; }},
};
constexpr int largest_attribute = 160;

int value_of(int attribute, int index) {
  int value = 0;
  find_attribute(attribute, index, &value);
  return value;
}

}  // namespace

bool find_attribute(int attribute, int index, int* value) {
  if (attribute <= 0 || attribute > largest_attribute) return false;
  const auto* found = std::find_if(std::begin(attributes), std::end(attributes),
                                   [&](const Attribute& a) { return a.number == attribute; });
  *value = found == std::end(attributes) ? 0 : found->value(index);  // not listed: not supported
  return true;
}

cudaDeviceProp properties(int index) {
  cudaDeviceProp p;
  std::memset(&p, 0, sizeof p);
  const Device& d = device();
  const auto value = [&](cudaDeviceAttr a) { return value_of(a, index); };
  d.title.copy(p.name, sizeof p.name - 1);
  for (std::size_t i = 0; i < sizeof p.uuid.bytes; ++i)
    p.uuid.bytes[i] = static_cast<char>(i == 15 ? index : 0xac);
  p.totalGlobalMem = d.total_bytes;
  p.sharedMemPerBlock = shared_per_block;
  p.regsPerBlock = registers;
  p.warpSize = warp;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = max_threads_per_block;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = constant_bytes;
  p.major = d.major;
  p.minor = d.minor;
  p.textureAlignment = p.surfaceAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = d.multiprocessors;
  p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
  p.pciBusID = value(cudaDevAttrPciBusId);
  p.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  p.memoryBusWidth = d.memory_bus_bits;
  p.l2CacheSize = static_cast<int>(d.l2_bytes);
  p.persistingL2CacheMaxSize = value(cudaDevAttrMaxPersistingL2CacheSize);
  p.maxThreadsPerMultiProcessor = capability().threads_per_multiprocessor;
  p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(capability().shared_per_multiprocessor);
  p.regsPerMultiprocessor = registers;
  p.managedMemory = p.concurrentManagedAccess = p.computePreemptionSupported = 1;
  p.canUseHostPointerForRegisteredMem = p.cooperativeLaunch = p.hostRegisterSupported = 1;
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(capability().shared_per_block_optin);
  p.maxBlocksPerMultiProcessor = capability().blocks_per_multiprocessor;
  p.accessPolicyMaxWindowSize = value(cudaDevAttrMaxAccessPolicyWindowSize);
  p.reservedSharedMemPerBlock = reserved_shared;
  p.memoryPoolsSupported = p.ipcEventSupported = p.unifiedFunctionPointers = 1;
  p.memoryPoolSupportedHandleTypes = 1;
  p.clusterLaunch = capability().clusters ? 1 : 0;
  p.deviceNumaId = -1;
  return p;
}

}  // namespace emulator::runtime
