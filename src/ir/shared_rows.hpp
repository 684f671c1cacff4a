#pragma once

#include <cstdint>

namespace ac_advisor::ir {

/// How many blocks share each output of a reduction over rows.
struct SharedRows {
  std::int64_t blocks = 1;   ///< 1: they clear no semaphores, and leave no partial results
  std::int64_t threads = 0;  ///< of a block that have outputs of their own, times its outputs each
  std::int64_t columns = 0;  ///< of blocks
};

/// A reduction over `rows` of `outputs` columns each, which PyTorch 2.11 shares among several
/// blocks where their threads would take 256 values or more (aten/src/ATen/native/cuda/Reduce.cuh:
/// setReduceConfig).
[[nodiscard]] SharedRows shared_rows(std::int64_t outputs, std::int64_t rows,
                                     std::int64_t sm_count);

/// Of the reduction of `values` to one.
[[nodiscard]] std::int64_t blocks_of_whole(std::int64_t values, std::int64_t sm_count);

/// Multiprocessors of an H100, by which launches are counted: they decide for columns beyond a
/// quarter of a million alone.
inline constexpr std::int64_t counted_sms = 132;
/// Launches of such a reduction: of several blocks the semaphores are cleared first.
[[nodiscard]] std::int32_t whole_reduction_launches(std::int64_t values);

}  // namespace ac_advisor::ir
