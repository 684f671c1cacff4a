#include <mutex>
#include <vector>

#include "emulator/device.hpp"
#include "emulator/memory.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"

/// Stream-ordered allocations. A pool gives memory back at once: its release threshold is kept, but
/// reuse across streams is not modelled.
namespace emulator::runtime {
namespace {

struct Pool {
  int device = 0;
  std::uint64_t threshold = 0, used = 0, used_high = 0;
};
std::mutex& mutex() {
  static auto* m = new std::mutex;
  return *m;
}
Pool& pool_of(int index) {
  static auto* pools = [] {
    auto* all = new std::vector<Pool>(static_cast<std::size_t>(device_count()));
    for (std::size_t d = 0; d < all->size(); ++d) (*all)[d].device = static_cast<int>(d);
    return all;
  }();
  return pools->at(static_cast<std::size_t>(index));
}
cudaMemPool_t handle(Pool& p) { return reinterpret_cast<cudaMemPool_t>(&p); }
Pool& pool(cudaMemPool_t h) { return *reinterpret_cast<Pool*>(h); }

cudaError_t allocate(void** pointer, std::size_t bytes, Pool& p) {
  record::touch();
  *pointer = bytes == 0 ? nullptr : memory::allocate(bytes, p.device);
  if (bytes == 0) return cudaSuccess;
  if (*pointer == nullptr) return fail(cudaErrorMemoryAllocation);
  const std::lock_guard lock(mutex());
  p.used += memory::find(*pointer)->bytes;
  if (p.used > p.used_high) p.used_high = p.used;
  return cudaSuccess;
}

}  // namespace

ANSWER cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) {
  return allocate(pointer, bytes, pool_of(current_device()));
}
ANSWER cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t p,
                                           cudaStream_t) {
  return allocate(pointer, bytes, pool(p));
}
ANSWER cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  if (pointer == nullptr) return cudaSuccess;
  const auto range = memory::find(pointer);
  if (!range || !memory::release(pointer)) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex());
  Pool& p = pool_of(range->device);
  p.used -= std::min<std::uint64_t>(p.used, range->bytes);
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* p, int index) {
  if (index < 0 || index >= device_count()) return fail(cudaErrorInvalidDevice);
  *p = handle(pool_of(index));
  return cudaSuccess;
}
ANSWER cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* p, int index) {
  return cudaDeviceGetDefaultMemPool(p, index);
}
ANSWER cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
ANSWER cudaError_t cudaMemPoolCreate(cudaMemPool_t* p, const cudaMemPoolProps* properties) {
  auto* made = new Pool;
  made->device = properties->location.id;
  *p = handle(*made);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
ANSWER cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
ANSWER cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t,
                                        cudaMemLocation*) {
  *flags = cudaMemAccessFlagsProtReadWrite;
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t h, cudaMemPoolAttr a, void* value) {
  const std::lock_guard lock(mutex());
  Pool& p = pool(h);
  if (a == cudaMemPoolAttrReleaseThreshold) p.threshold = *static_cast<std::uint64_t*>(value);
  if (a == cudaMemPoolAttrUsedMemHigh || a == cudaMemPoolAttrReservedMemHigh) p.used_high = p.used;
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t h, cudaMemPoolAttr a, void* value) {
  const std::lock_guard lock(mutex());
  const Pool& p = pool(h);
  switch (a) {
    case cudaMemPoolAttrReleaseThreshold:
      *static_cast<std::uint64_t*>(value) = p.threshold;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
    case cudaMemPoolAttrReservedMemCurrent:
      *static_cast<std::uint64_t*>(value) = p.used;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
    case cudaMemPoolAttrReservedMemHigh:
      *static_cast<std::uint64_t*>(value) = p.used_high;
      return cudaSuccess;
    default:
      *static_cast<int*>(value) = 1;  // the reuse policies, which are on
      return cudaSuccess;
  }
}

}  // namespace emulator::runtime
