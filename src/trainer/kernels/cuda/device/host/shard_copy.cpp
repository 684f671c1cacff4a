#include "trainer/kernels/cuda/device/bodies/shard_copy.hpp"

#include <memory>

#include "trainer/kernels/cuda/device/bodies/batches.hpp"
#include "trainer/kernels/cuda/device/host/block.hpp"

namespace ac_advisor::trainer::cuda::device {

void copy_shards(const ShardCopy* copies, std::int64_t count, Stream) {
  Threads block(shard_copy_threads);
  in_batches(count, shard_copy_tensors, [&](std::int64_t first, int n) {
    const auto batch = std::make_unique<ShardCopyBatch>();
    fill(*batch, copies + first, n);
    for (std::uint32_t chunk = 0; chunk < batch->first_chunk[n]; ++chunk)
      shard_copy(block, *batch, chunk);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
