#include <cuda.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "emulator/copy.hpp"
#include "emulator/device.hpp"
#include "emulator/memory.hpp"

namespace {

constexpr std::size_t mib = 1u << 20;

std::size_t free_now() {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

}  // namespace

TEST_CASE("device memory is handed out in granules of 2 MiB, the context apart") {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 85028765696);
  const std::size_t before = free_now();
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 3 * mib + 1) == cudaSuccess);
  CHECK(before - free_now() == 4 * mib);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(free_now() == before);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("what does not fit is refused, and the error is told once") {
  const std::size_t free = free_now();
  void* p = nullptr;
  CHECK(cudaMalloc(&p, free + 1) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaMalloc(&p, free / (2 * mib) * (2 * mib)) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
}

TEST_CASE("addresses are handed out lowest first, and again when they are free") {
  void *a = nullptr, *b = nullptr, *c = nullptr;
  REQUIRE(cudaMalloc(&a, 4 * mib) == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 4 * mib) == cudaSuccess);
  CHECK(b > a);
  REQUIRE(cudaFree(a) == cudaSuccess);
  REQUIRE(cudaMalloc(&c, 2 * mib) == cudaSuccess);
  CHECK(c == a);
  cudaFree(b);
  cudaFree(c);
}

TEST_CASE("a physical handle is a charge until it is neither held nor mapped") {
  const std::size_t before = free_now();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemAddressReserve(&at, 64 * mib, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(free_now() == before);
  REQUIRE(cuMemCreate(&handle, 20 * mib, &properties, 0) == CUDA_SUCCESS);
  CHECK(before - free_now() == 20 * mib);
  REQUIRE(cuMemMap(at, 20 * mib, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(before - free_now() == 20 * mib);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(at + mib)) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cuMemUnmap(at, 20 * mib) == CUDA_SUCCESS);
  CHECK(free_now() == before);
  CHECK(cuMemAddressFree(at, 64 * mib) == CUDA_SUCCESS);
}

TEST_CASE("small copies are real, large ones move nothing, zeros always reach") {
  const std::size_t large = emulator::copy_limit() * 2;
  std::vector<char> host(large, 7), back(large, 1);
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, large) == cudaSuccess);
  REQUIRE(cudaMemcpy(p, host.data(), 1000, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(back.data(), p, 1000, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::memcmp(back.data(), host.data(), 1000) == 0);
  REQUIRE(cudaMemcpy(p, host.data(), large, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(static_cast<char*>(p)[large - 1] == 0);
  REQUIRE(cudaMemset(p, 0, large) == cudaSuccess);
  CHECK(static_cast<char*>(p)[10] == 0);
  cudaFree(p);
}

TEST_CASE("a pointer says where it lies") {
  cudaPointerAttributes a{};
  int on_stack = 0;
  REQUIRE(cudaPointerGetAttributes(&a, &on_stack) == cudaSuccess);
  CHECK(a.type == cudaMemoryTypeUnregistered);
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, 100, 0) == cudaSuccess);
  REQUIRE(cudaPointerGetAttributes(&a, static_cast<char*>(pinned) + 99) == cudaSuccess);
  CHECK(a.type == cudaMemoryTypeHost);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}
