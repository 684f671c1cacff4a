#pragma once

#include <cstdint>

#include "ac_advisor/ir/attributes.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// The tiles of logits of TRL's fused heads (v1.16): TOKEN_CHUNK_SIZE, and
/// _CHUNKED_LOGPROB_CHUNK_SIZE of kernels/chunked_logprob.py, VOCAB_CHUNK_SIZE of
/// kernels/chunked_divergence.py.
inline constexpr std::int64_t tile_tokens = 4096, tile_words = 32768;

/// By what their products are computed in.
[[nodiscard]] inline ir::TiledHead tiles_in(DType products) {
  return {static_cast<std::int32_t>(tile_tokens), static_cast<std::int32_t>(tile_words),
          is_half(products)};
}

}  // namespace ac_advisor::passes
