#pragma once

#include <cstdint>

namespace ac_advisor::ir {

/// The logits that linear_cross_entropy has at a time on a CPU: tokens x words, in fp32. The op
/// table's workspace and the trainer's kernel both read it here.
inline constexpr std::int64_t loss_tile_tokens = 512;
inline constexpr std::int64_t loss_tile_vocab = 2048;

}  // namespace ac_advisor::ir
