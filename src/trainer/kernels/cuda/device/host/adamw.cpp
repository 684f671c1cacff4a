#include "trainer/kernels/cuda/device/bodies/adamw.hpp"

#include <memory>

#include "trainer/kernels/cuda/device/host/block.hpp"

namespace ac_advisor::trainer::cuda::device {

void adamw(const AdamWTensor* tensors, std::int64_t count, const AdamW& settings, Stream) {
  Threads block(adamw_threads);
  in_batches(count, adamw_steps, [&](std::int64_t first, int n) {
    const auto steps = std::make_unique<AdamWSteps>();
    fill(*steps, tensors + first, n);
    adamw_count_steps(block, *steps, 0, 1);
  });
  in_batches(count, adamw_tensors, [&](std::int64_t first, int n) {
    const auto batch = std::make_unique<AdamWBatch>();
    fill(*batch, tensors + first, n, settings);
    for (std::uint32_t chunk = 0; chunk < batch->first_chunk[n]; ++chunk)
      adamw_update(block, *batch, chunk);
  });
}

std::int64_t adamw_launches(std::int64_t count) {
  return batches(count, adamw_steps) + batches(count, adamw_tensors);
}

}  // namespace ac_advisor::trainer::cuda::device
