#include "emulator/device.hpp"

#include <cstdio>
#include <cstring>

#include "emulator/memory.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/runtime/device_attributes.hpp"
#include "emulator/stream.hpp"

namespace emulator::runtime {
namespace {

bool known(int index) { return index >= 0 && index < device_count(); }
constexpr int bus_of_first = 0x18;

}  // namespace

ANSWER cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
ANSWER cudaError_t cudaGetDevice(int* index) {
  *index = current_device();
  return cudaSuccess;
}
ANSWER cudaError_t cudaSetDevice(int index) {
  if (!known(index)) return fail(cudaErrorInvalidDevice);
  record::touch();
  current_device() = index;
  return cudaSuccess;
}
ANSWER cudaError_t cudaInitDevice(int index, unsigned, unsigned) {
  return known(index) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
ANSWER cudaError_t cudaSetValidDevices(int*, int) { return cudaSuccess; }
ANSWER cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
ANSWER cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
ANSWER cudaError_t cudaDeviceReset() { return cudaSuccess; }
ANSWER cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version();
  return cudaSuccess;
}
ANSWER cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version();
  return cudaSuccess;
}

ANSWER cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
  if (!known(index)) return fail(cudaErrorInvalidDevice);
  record::touch();
  *p = properties(index);
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (!known(index)) return fail(cudaErrorInvalidDevice);
  return find_attribute(static_cast<int>(attribute), index, value) ? cudaSuccess
                                                                   : fail(cudaErrorInvalidValue);
}
ANSWER cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int index) {
  if (!known(index)) return fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", bus_of_first + index);
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetByPCIBusId(int* index, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2 ||
      !known(static_cast<int>(bus) - bus_of_first))
    return fail(cudaErrorInvalidDevice);
  *index = static_cast<int>(bus) - bus_of_first;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = lowest_priority;
  if (greatest != nullptr) *greatest = highest_priority;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!known(device) || !known(peer)) return fail(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
ANSWER cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaSuccess; }
ANSWER cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = 1;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  constexpr std::size_t stack = 1024, fifo = 1u << 20, heap = 8u << 20;
  switch (limit) {
    case cudaLimitStackSize:
      *value = stack;
      return cudaSuccess;
    case cudaLimitPrintfFifoSize:
      *value = fifo;
      return cudaSuccess;
    case cudaLimitMallocHeapSize:
      *value = heap;
      return cudaSuccess;
    default:
      *value = 0;
      return cudaSuccess;
  }
}
ANSWER cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return cudaSuccess; }
ANSWER cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
ANSWER cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
ANSWER cudaError_t cudaChooseDevice(int* index, const cudaDeviceProp*) {
  *index = 0;
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = memory::free_bytes(current_device());
  *total = device().total_bytes;
  return cudaSuccess;
}
ANSWER cudaError_t cudaProfilerStart() { return cudaSuccess; }
ANSWER cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // namespace emulator::runtime
