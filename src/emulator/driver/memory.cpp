#include "emulator/memory.hpp"

#include <cstring>

#include "emulator/copy.hpp"
#include "emulator/device.hpp"
#include "emulator/driver/api.hpp"
#include "emulator/record.hpp"

namespace emulator::driver {
namespace {

void* pointer_of(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
CUdeviceptr address_of(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

ANSWER CUresult cuMemAlloc_v2(CUdeviceptr* p, std::size_t bytes) {
  record::touch();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *p = address_of(memory::allocate(bytes, current_device()));
  return *p == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
ANSWER CUresult cuMemFree_v2(CUdeviceptr p) {
  return p == 0 || memory::release(pointer_of(p)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
ANSWER CUresult cuMemAllocAsync(CUdeviceptr* p, std::size_t bytes, CUstream) {
  return cuMemAlloc_v2(p, bytes);
}
ANSWER CUresult cuMemFreeAsync(CUdeviceptr p, CUstream) { return cuMemFree_v2(p); }
ANSWER CUresult cuMemAllocManaged(CUdeviceptr* p, std::size_t bytes, unsigned) {
  record::touch();
  *p = address_of(memory::allocate(bytes, current_device(), memory::Kind::managed));
  return *p == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
ANSWER CUresult cuMemAllocHost_v2(void** p, std::size_t bytes) {
  *p = memory::allocate_host(bytes);
  return *p == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
ANSWER CUresult cuMemHostAlloc(void** p, std::size_t bytes, unsigned) {
  return cuMemAllocHost_v2(p, bytes);
}
ANSWER CUresult cuMemFreeHost(void* p) {
  return memory::unregister_host(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
ANSWER CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* p, void* host, unsigned) {
  *p = address_of(host);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = memory::free_bytes(current_device());
  *total = device().total_bytes;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr p) {
  const auto range = memory::find(pointer_of(p));
  if (!range) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = address_of(range->base);
  if (bytes != nullptr) *bytes = range->bytes;
  return CUDA_SUCCESS;
}

ANSWER CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr p) {
  const auto range = memory::find(pointer_of(p));
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<std::uintptr_t*>(value) = static_cast<std::uintptr_t>(range->device) + 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) =
          memory::on_device(*range) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<CUdeviceptr*>(value) = p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = range->kind == memory::Kind::managed ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = range->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = address_of(range->base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = range->bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(value) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(value) = address_of(range->base);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
ANSWER CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                       void** values, CUdeviceptr p) {
  for (unsigned i = 0; i < count; ++i)
    if (cuPointerGetAttribute(values[i], attributes[i], p) != CUDA_SUCCESS)
      std::memset(values[i], 0, sizeof(int));
  return CUDA_SUCCESS;
}
ANSWER CUresult cuPointerSetAttribute(const void*, CUpointer_attribute, CUdeviceptr) {
  return CUDA_SUCCESS;
}

ANSWER CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  copy(pointer_of(to), pointer_of(from), bytes, nullptr);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream s) {
  copy(pointer_of(to), pointer_of(from), bytes, s);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  copy(pointer_of(to), from, bytes, nullptr);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  copy(to, pointer_of(from), bytes, nullptr);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return cuMemcpy(to, from, bytes);
}
ANSWER CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                     CUstream s) {
  copy(pointer_of(to), from, bytes, s);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream s) {
  copy(to, pointer_of(from), bytes, s);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                     CUstream s) {
  return cuMemcpyAsync(to, from, bytes, s);
}
ANSWER CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  fill(pointer_of(to), value, 1, count, nullptr);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count,
                                CUstream s) {
  fill(pointer_of(to), value, 1, count, s);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
  fill(pointer_of(to), value, 4, count, nullptr);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream s) {
  fill(pointer_of(to), value, 4, count, s);
  return CUDA_SUCCESS;
}

}  // namespace emulator::driver
