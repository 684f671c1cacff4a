#include "trainer/kernels/cuda/device/bodies/adamw.hpp"

#include "trainer/kernels/cuda/device/cuda/block.cuh"
#include "trainer/kernels/cuda/device/cuda/launch.cuh"

namespace ac_advisor::trainer::cuda::device {
namespace {

constexpr int steps_threads = 128;

__global__ void __launch_bounds__(steps_threads)
    steps_kernel(const __grid_constant__ AdamWSteps steps) {
  __shared__ Threads::Scratch scratch;
  Threads block(steps_threads, scratch);
  adamw_count_steps(block, steps, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

__global__ void __launch_bounds__(adamw_threads)
    adamw_kernel(const __grid_constant__ AdamWBatch batch) {
  __shared__ Threads::Scratch scratch;
  Threads block(adamw_threads, scratch);
  adamw_update(block, batch, blockIdx.x);
}

}  // namespace

void adamw(const AdamWTensor* tensors, std::int64_t count, const AdamW& settings, Stream stream) {
  in_batches(count, adamw_steps, [&](std::int64_t first, int n) {
    AdamWSteps steps;
    fill(steps, tensors + first, n);
    launch("adamw's steps", steps_kernel, blocks(ceil_div(n, steps_threads)), steps_threads, stream,
           steps);
  });
  in_batches(count, adamw_tensors, [&](std::int64_t first, int n) {
    AdamWBatch batch;
    fill(batch, tensors + first, n, settings);
    if (batch.first_chunk[n] > 0)
      launch("adamw", adamw_kernel, blocks(batch.first_chunk[n]), adamw_threads, stream, batch);
  });
}

std::int64_t adamw_launches(std::int64_t count) {
  return batches(count, adamw_steps) + batches(count, adamw_tensors);
}

}  // namespace ac_advisor::trainer::cuda::device
