#include <map>
#include <mutex>

#include "emulator/device.hpp"
#include "emulator/driver/api.hpp"
#include "emulator/memory.hpp"
#include "emulator/record.hpp"

/// Addresses are reserved as host memory; a physical handle is a charge against the device, given
/// back when it is neither held nor mapped.
namespace emulator::driver {
namespace {

struct Physical {
  std::size_t bytes = 0;
  CUmemAllocationProp properties{};
  int holders = 1, mappings = 0;
};
struct Mappings {
  std::mutex mutex;
  std::map<CUdeviceptr, Physical*> by_address;
};
Mappings& mappings() {
  static auto* m = new Mappings;
  return *m;
}
Physical* physical_of(CUmemGenericAllocationHandle h) { return reinterpret_cast<Physical*>(h); }

bool on_device(const Physical& p) {
  return p.properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

void drop_if_unused(Physical* p) {
  if (p->holders > 0 || p->mappings > 0) return;
  if (on_device(*p)) memory::discharge(p->properties.location.id, p->bytes);
  delete p;
}

}  // namespace

ANSWER CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
  *bytes = memory::granule;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemAddressReserve(CUdeviceptr* p, std::size_t bytes, std::size_t, CUdeviceptr,
                                    unsigned long long) {
  record::touch();
  *p = reinterpret_cast<CUdeviceptr>(memory::reserve(bytes, current_device()));
  return *p == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
ANSWER CUresult cuMemAddressFree(CUdeviceptr p, std::size_t) {
  return memory::unreserve(reinterpret_cast<void*>(p)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
ANSWER CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                            const CUmemAllocationProp* properties, unsigned long long) {
  record::touch();
  if (bytes == 0 || bytes % memory::granule != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* p = new Physical{bytes, *properties};
  if (on_device(*p) && !memory::charge(p->properties.location.id, bytes)) {
    delete p;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(p);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mappings().mutex);
  Physical* p = physical_of(handle);
  --p->holders;
  drop_if_unused(p);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemMap(CUdeviceptr at, std::size_t, std::size_t,
                         CUmemGenericAllocationHandle handle, unsigned long long) {
  Mappings& m = mappings();
  const std::lock_guard lock(m.mutex);
  if (!m.by_address.emplace(at, physical_of(handle)).second) return CUDA_ERROR_INVALID_VALUE;
  ++physical_of(handle)->mappings;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemUnmap(CUdeviceptr at, std::size_t bytes) {
  Mappings& m = mappings();
  const std::lock_guard lock(m.mutex);
  const auto first = m.by_address.lower_bound(at), last = m.by_address.lower_bound(at + bytes);
  if (first == last) return CUDA_ERROR_INVALID_VALUE;
  for (auto it = first; it != last; ++it) {
    --it->second->mappings;
    drop_if_unused(it->second);
  }
  m.by_address.erase(first, last);
  memory::discard(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation*, CUdeviceptr) {
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  Mappings& m = mappings();
  const std::lock_guard lock(m.mutex);
  auto it = m.by_address.upper_bound(reinterpret_cast<CUdeviceptr>(address));
  if (it == m.by_address.begin()) return CUDA_ERROR_INVALID_VALUE;
  --it;
  ++it->second->holders;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(it->second);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                       CUmemGenericAllocationHandle handle) {
  *properties = physical_of(handle)->properties;
  return CUDA_SUCCESS;
}

}  // namespace emulator::driver
