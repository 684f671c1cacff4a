#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "ac_advisor/model/spec.hpp"
#include "trainer/weights/names.hpp"

namespace ac_advisor::trainer {

/// Standard normal, of element `index` of stream `key`.
[[nodiscard]] float normal(std::uint64_t key, std::int64_t index);

/// Elements [begin, end) of a parameter, row-major, into `to` (contiguous, any floating type).
/// Each element depends on (seed, name, index) alone, so any shard of any sharding gets the same.
/// transformers' _init_weights: normal(0, 0.02) for matrices, 1 for norms (0 for Gemma's offsets),
/// 0 for biases. PEFT's reset_lora_parameters (v0.21, tuners/lora/layer.py): A uniform within
/// 1 / sqrt(its columns), B 0.
void initial_parameter(const model::ModelSpec& spec, const NamedParameter& parameter,
                       std::uint64_t seed, std::int64_t begin, std::int64_t end, at::Tensor to);

}  // namespace ac_advisor::trainer
