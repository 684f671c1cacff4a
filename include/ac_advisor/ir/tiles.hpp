#pragma once

#include <algorithm>
#include <cstdint>

namespace ac_advisor::ir {

/// The logits that linear_cross_entropy has at a time: tokens x words, in fp32. The op table's
/// workspace and the trainer's kernels both read it here.
inline constexpr std::int64_t loss_tile_tokens = 512;
inline constexpr std::int64_t loss_tile_vocab = 2048;
/// On a GPU: 32 MiB, which an L2 cache of 50 MB keeps, in products large enough for all of its
/// multiprocessors.
inline constexpr std::int64_t cuda_loss_tile_tokens = 2048;
inline constexpr std::int64_t cuda_loss_tile_vocab = 4096;

/// Rows of partial sums of a fused norm's weight gradient on a GPU: as many as keep it busy.
[[nodiscard]] constexpr std::int64_t norm_partial_rows(std::int64_t rows, std::int64_t columns) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 21) / columns, 1, rows);
}

}  // namespace ac_advisor::ir
