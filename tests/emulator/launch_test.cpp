#include <cuda.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
// NVIDIA's own calculator, which these figures must equal.
#include <cuda_occupancy.h>

#include "emulator/device.hpp"
#include "emulator/kernel.hpp"
#include "emulator/occupancy.hpp"
#include "emulator/runtime/device_attributes.hpp"

extern "C" void ac_advisor_emulator_counts(std::uint64_t* out);

namespace {

std::uint64_t kernels() {
  std::uint64_t counts[12] = {};
  ac_advisor_emulator_counts(counts);
  return counts[0];
}

const char stub = 0;
emulator::Kernel& kernel() {
  static emulator::Kernel* k = emulator::add_kernel("stub", nullptr, &stub, -1);
  return *k;
}

cudaError_t launch(dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = nullptr) {
  kernel();
  return cudaLaunchKernel(&stub, grid, block, nullptr, shared, stream);
}

}  // namespace

TEST_CASE("a launch is counted, unless the driver refuses its arguments") {
  const std::uint64_t before = kernels();
  CHECK(launch({1, 1, 1}, {128, 1, 1}) == cudaSuccess);
  CHECK(kernels() == before + 1);
  CHECK(launch({0, 1, 1}, {128, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, 1, 1}, {1025, 1, 1}) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, 65536, 1}, {128, 1, 1}) == cudaErrorInvalidValue);
  CHECK(launch({1, 1, 1}, {128, 1, 1}, 49 << 10) == cudaErrorInvalidValue);
  CHECK(kernels() == before + 1);
  CHECK(cudaLaunchKernel(&before, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  REQUIRE(cudaFuncSetAttribute(&stub, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) ==
          cudaSuccess);
  CHECK(launch({1, 1, 1}, {128, 1, 1}, 49 << 10) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a captured launch counts at each replay, with what joined the capture") {
  cudaStream_t stream = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&side) == cudaSuccess);
  REQUIRE(cudaEventCreate(&fork) == cudaSuccess);
  const std::uint64_t before = kernels();
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(launch({1, 1, 1}, {32, 1, 1}, 0, stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
  CHECK(launch({1, 1, 1}, {32, 1, 1}, 0, side) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(kernels() == before);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  REQUIRE(cudaStreamIsCapturing(side, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(kernels() == before + 4);
  cudaGetLastError();
}

TEST_CASE("occupancy is what NVIDIA's calculator says") {
  const cudaDeviceProp p = emulator::runtime::properties(0);
  cudaOccDeviceProp device(p);
  cudaOccDeviceState state;
  for (const int registers : {16, 32, 40, 64, 96, 128, 168, 255})
    for (const int threads : {32, 96, 128, 256, 512, 1024})
      for (const std::size_t shared : {std::size_t{0}, std::size_t{4096}, std::size_t{40960}}) {
        CAPTURE(registers);
        CAPTURE(threads);
        CAPTURE(shared);
        cudaOccFuncAttributes attributes;
        attributes.maxThreadsPerBlock = 1024;
        attributes.numRegs = registers;
        attributes.sharedSizeBytes = 0;
        attributes.maxDynamicSharedSizeBytes = 48 << 10;
        cudaOccResult expected{};
        const auto status = cudaOccMaxActiveBlocksPerMultiprocessor(&expected, &device, &attributes,
                                                                    &state, threads, shared);
        emulator::Resources r;
        r.registers = registers;
        CHECK(emulator::blocks_per_multiprocessor(r, threads, shared) ==
              (status == CUDA_OCC_SUCCESS ? expected.activeBlocksPerMultiprocessor : 0));
      }
}

TEST_CASE("the driver's entry points are found by their plain names") {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(cuGetProcAddress("cuNoSuchFunction", &function, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}
