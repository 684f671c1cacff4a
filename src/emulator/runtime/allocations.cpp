#include <cstring>

#include "emulator/device.hpp"
#include "emulator/memory.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"

namespace emulator::runtime {

ANSWER cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  record::touch();
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = memory::allocate(bytes, current_device());
  return *pointer == nullptr ? fail(cudaErrorMemoryAllocation) : cudaSuccess;
}
ANSWER cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  return memory::release(pointer) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
ANSWER cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t height) {
  constexpr std::size_t step = 512;
  *pitch = (width + step - 1) / step * step;
  return cudaMalloc(pointer, *pitch * height);
}
/// Counted as the device's: what is managed may move there.
ANSWER cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  record::touch();
  *pointer = memory::allocate(bytes, current_device(), memory::Kind::managed);
  return *pointer == nullptr ? fail(cudaErrorMemoryAllocation) : cudaSuccess;
}
ANSWER cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned,
                                        cudaStream_t) {
  return cudaSuccess;
}

ANSWER cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = bytes == 0 ? nullptr : memory::allocate_host(bytes);
  return *pointer == nullptr && bytes > 0 ? fail(cudaErrorMemoryAllocation) : cudaSuccess;
}
ANSWER cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}
ANSWER cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  return memory::unregister_host(pointer) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
ANSWER cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (memory::find(pointer)) return fail(cudaErrorHostMemoryAlreadyRegistered);
  memory::register_host(pointer, bytes);
  return cudaSuccess;
}
ANSWER cudaError_t cudaHostUnregister(void* pointer) {
  return memory::unregister_host(pointer) ? cudaSuccess : fail(cudaErrorHostMemoryNotRegistered);
}
ANSWER cudaError_t cudaHostGetDevicePointer(void** on_device, void* host, unsigned) {
  *on_device = host;
  return cudaSuccess;
}
ANSWER cudaError_t cudaHostGetFlags(unsigned* flags, void*) {
  *flags = cudaHostAllocDefault;
  return cudaSuccess;
}

ANSWER cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* pointer) {
  std::memset(a, 0, sizeof *a);
  a->type = cudaMemoryTypeUnregistered;
  a->device = cudaInvalidDeviceId;
  const auto range = memory::find(pointer);
  if (!range) {
    a->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  a->device = range->device;
  a->devicePointer = const_cast<void*>(pointer);
  if (range->kind == memory::Kind::managed)
    a->type = cudaMemoryTypeManaged;
  else if (memory::on_device(*range))
    a->type = cudaMemoryTypeDevice;
  else
    a->type = cudaMemoryTypeHost;
  if (!memory::on_device(*range)) a->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

// Handles to memory of another process: this one's addresses mean nothing there.
ANSWER cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &pointer, sizeof pointer);
  note_once("memory was shared between processes: each keeps its own copy here");
  return cudaSuccess;
}
ANSWER cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t, unsigned) {
  return cudaMalloc(pointer, memory::granule);
}
ANSWER cudaError_t cudaIpcCloseMemHandle(void* pointer) { return cudaFree(pointer); }

}  // namespace emulator::runtime
