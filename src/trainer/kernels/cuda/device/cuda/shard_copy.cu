#include "trainer/kernels/cuda/device/bodies/shard_copy.hpp"

#include "trainer/kernels/cuda/device/bodies/batches.hpp"
#include "trainer/kernels/cuda/device/cuda/block.cuh"
#include "trainer/kernels/cuda/device/cuda/launch.cuh"

namespace ac_advisor::trainer::cuda::device {
namespace {

__global__ void __launch_bounds__(shard_copy_threads)
    shard_copy_kernel(const __grid_constant__ ShardCopyBatch batch) {
  __shared__ Threads::Scratch scratch;
  Threads block(shard_copy_threads, scratch);
  shard_copy(block, batch, blockIdx.x);
}

}  // namespace

void copy_shards(const ShardCopy* copies, std::int64_t count, Stream stream) {
  in_batches(count, shard_copy_tensors, [&](std::int64_t first, int n) {
    ShardCopyBatch batch;
    fill(batch, copies + first, n);
    if (batch.first_chunk[n] > 0)
      launch("copy_shards", shard_copy_kernel, blocks(batch.first_chunk[n]), shard_copy_threads,
             stream, batch);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
