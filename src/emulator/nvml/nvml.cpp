#include <cstdint>
#include <cstdio>
#include <cstring>

#include "emulator/answer.hpp"
#include "emulator/device.hpp"
#include "emulator/memory.hpp"
#include "emulator/runtime/api.hpp"

/// NVML by its binary interface. A device's handle is its index + 1. What only hardware knows
/// (temperature, power, utilisation) is "not supported".
namespace emulator::nvml {
namespace {

constexpr int success = 0, invalid_argument = 2, not_supported = 3, not_found = 6;
constexpr const char* driver_version = "580.00 (emulated)";

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
/// nvmlGpuFabricInfoV_t, versions 2 and 3.
struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

std::uintptr_t handle_of(unsigned index) { return index + 1; }
int index_of(std::uintptr_t handle) { return static_cast<int>(handle) - 1; }

Memory memory_of(std::uintptr_t handle) {
  const std::uint64_t total = device().total_bytes, free = memory::free_bytes(index_of(handle));
  return {total, free, total - free};
}

}  // namespace

ANSWER int nvmlInit_v2() { return success; }
ANSWER int nvmlInitWithFlags(unsigned) { return success; }
ANSWER int nvmlInit() { return success; }
ANSWER int nvmlShutdown() { return success; }
ANSWER const char* nvmlErrorString(int error) {
  switch (error) {
    case success:
      return "Success";
    case invalid_argument:
      return "Invalid Argument";
    case not_found:
      return "Not Found";
    default:
      return "Not Supported";
  }
}
ANSWER int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "%s", driver_version);
  return success;
}
ANSWER int nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  std::snprintf(text, length, "13.%s", driver_version);
  return success;
}
ANSWER int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = runtime::driver_version();
  return success;
}
ANSWER int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = runtime::driver_version();
  return success;
}
ANSWER int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(device_count());
  return success;
}
ANSWER int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }
ANSWER int nvmlDeviceGetHandleByIndex_v2(unsigned index, std::uintptr_t* handle) {
  if (index >= static_cast<unsigned>(device_count())) return invalid_argument;
  *handle = handle_of(index);
  return success;
}
ANSWER int nvmlDeviceGetHandleByIndex(unsigned index, std::uintptr_t* handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
ANSWER int nvmlDeviceGetHandleByPciBusId_v2(const char* text, std::uintptr_t* handle) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2 || bus < 0x18) return not_found;
  return nvmlDeviceGetHandleByIndex_v2(bus - 0x18, handle);
}
ANSWER int nvmlDeviceGetHandleByUUID(const char* text, std::uintptr_t* handle) {
  unsigned index = 0;
  if (std::sscanf(text, "GPU-acacacac-acac-acac-acac-acacacacac%x", &index) != 1) return not_found;
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
ANSWER int nvmlDeviceGetUUID(std::uintptr_t handle, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-acacacac-acac-acac-acac-acacacacac%02x",
                static_cast<unsigned>(index_of(handle)));
  return success;
}
ANSWER int nvmlDeviceGetIndex(std::uintptr_t handle, unsigned* index) {
  *index = static_cast<unsigned>(index_of(handle));
  return success;
}
ANSWER int nvmlDeviceGetMinorNumber(std::uintptr_t handle, unsigned* number) {
  return nvmlDeviceGetIndex(handle, number);
}
ANSWER int nvmlDeviceGetName(std::uintptr_t, char* text, unsigned length) {
  std::snprintf(text, length, "%s", device().title.c_str());
  return success;
}
ANSWER int nvmlDeviceGetMemoryInfo(std::uintptr_t handle, Memory* m) {
  *m = memory_of(handle);
  return success;
}
ANSWER int nvmlDeviceGetMemoryInfo_v2(std::uintptr_t handle, MemoryV2* m) {
  const Memory plain = memory_of(handle);
  m->total = plain.total;
  m->reserved = 0;
  m->free = plain.free;
  m->used = plain.used;
  return success;
}
ANSWER int nvmlDeviceGetPciInfo_v3(std::uintptr_t handle, PciInfo* info) {
  std::memset(info, 0, sizeof *info);
  info->bus = 0x18u + static_cast<unsigned>(index_of(handle));
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
  std::snprintf(info->legacy, sizeof info->legacy, "0000:%02X:00.0", info->bus);
  return success;
}
ANSWER int nvmlDeviceGetCudaComputeCapability(std::uintptr_t, int* major, int* minor) {
  *major = device().major;
  *minor = device().minor;
  return success;
}
ANSWER int nvmlDeviceGetComputeRunningProcesses(std::uintptr_t, unsigned* count, void*) {
  *count = 0;
  return success;
}
ANSWER int nvmlDeviceGetComputeRunningProcesses_v3(std::uintptr_t, unsigned* count, void*) {
  *count = 0;
  return success;
}
ANSWER int nvmlDeviceGetP2PStatus(std::uintptr_t, std::uintptr_t, int, int* status) {
  *status = 0;
  return success;
}

/// The device is in no fabric of several nodes (NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, 0).
ANSWER int nvmlDeviceGetGpuFabricInfoV(std::uintptr_t, FabricInfo* info) {
  *info = {info->version, {}, success, 0, 0, 0};
  return success;
}

// An empty machine would answer with figures: here nothing is measured.
#define NOT_SUPPORTED(name) \
  ANSWER int name() { return not_supported; }
NOT_SUPPORTED(nvmlDeviceGetUtilizationRates)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetTotalEnergyConsumption)
NOT_SUPPORTED(nvmlDeviceGetPowerManagementLimit)
NOT_SUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetMaxClockInfo)
NOT_SUPPORTED(nvmlDeviceGetFanSpeed)
NOT_SUPPORTED(nvmlDeviceGetCpuAffinity)
NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetTopologyCommonAncestor)
NOT_SUPPORTED(nvmlDeviceGetMigMode)
NOT_SUPPORTED(nvmlDeviceGetComputeMode)
#undef NOT_SUPPORTED

}  // namespace emulator::nvml
