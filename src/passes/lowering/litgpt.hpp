#pragma once

#include <cstdint>

namespace ac_advisor::passes {

/// litgpt v0.5.13: tokens whose logits are one tensor of the LM head's (finetune/lora.py,
/// lm_head_chunk_size) and of the loss's (utils.py, chunked_cross_entropy: chunk_size).
inline constexpr std::int64_t litgpt_chunk_tokens = 128;

}  // namespace ac_advisor::passes
