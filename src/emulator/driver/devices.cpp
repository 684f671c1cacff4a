#include "emulator/device.hpp"

#include <cstdio>
#include <cstring>

#include "emulator/driver/api.hpp"
#include "emulator/memory.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/runtime/device_attributes.hpp"

namespace emulator::driver {
namespace {

bool known(CUdevice d) { return d >= 0 && d < device_count(); }

struct Words {
  CUresult error;
  const char *name, *text;
};
constexpr Words words[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
};

}  // namespace

ANSWER CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
ANSWER CUresult cuDriverGetVersion(int* version) {
  *version = runtime::driver_version();
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetCount(int* count) {
  *count = device_count();
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!known(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(length), "%s", device().title.c_str());
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice d) {
  if (!known(d)) return CUDA_ERROR_INVALID_DEVICE;
  const cudaDeviceProp p = runtime::properties(d);
  std::memcpy(uuid, &p.uuid, sizeof *uuid);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = device().total_bytes;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice d) {
  if (!known(d)) return CUDA_ERROR_INVALID_DEVICE;
  return runtime::find_attribute(static_cast<int>(attribute), d, value) ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_INVALID_VALUE;
}
ANSWER CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  *can = a != b ? 1 : 0;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice d) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x18 + d);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuGetErrorName(CUresult error, const char** text) {
  for (const Words& w : words)
    if (w.error == error) return *text = w.name, CUDA_SUCCESS;
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
ANSWER CUresult cuGetErrorString(CUresult error, const char** text) {
  for (const Words& w : words)
    if (w.error == error) return *text = w.text, CUDA_SUCCESS;
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace emulator::driver
