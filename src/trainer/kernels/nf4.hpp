#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>

namespace ac_advisor::trainer::nf4 {

/// NormalFloat of 4 bits: Dettmers et al. 2023 (QLoRA), appendix E.
inline constexpr std::array<float, 16> code_book{-1.0F,
                                                 -0.6961928009986877F,
                                                 -0.5250730514526367F,
                                                 -0.39491748809814453F,
                                                 -0.28444138169288635F,
                                                 -0.18477343022823334F,
                                                 -0.09105003625154495F,
                                                 0.0F,
                                                 0.07958029955625534F,
                                                 0.16093020141124725F,
                                                 0.24611230194568634F,
                                                 0.33791524171829224F,
                                                 0.44070982933044434F,
                                                 0.5626170039176941F,
                                                 0.7229568362236023F,
                                                 1.0F};

/// Weights that share a scale, the largest magnitude among them: bitsandbytes v0.50, Params4bit.
inline constexpr std::int64_t block = 64;

/// `weights` (any shape, row-major, floating) as codes, two a byte, the first in the high bits
/// ([ceil(n / 2)] u8), and scales ([ceil(n / 64)] fp32): bitsandbytes v0.50, quantize_4bit.
void quantize(const at::Tensor& weights, const at::Tensor& codes, const at::Tensor& scales);

/// Scales as bytes of the signed dynamic map with scales of their own, each of 256 of them, around
/// their mean: bitsandbytes v0.50, quantize_4bit with compress_statistics.
void quantize_scales(const at::Tensor& scales, const at::Tensor& bytes, const at::Tensor& nested,
                     const at::Tensor& offset);
/// And back, without the offset.
void dequantize_scales(const at::Tensor& bytes, const at::Tensor& nested, const at::Tensor& scales);

/// The scale of a block of weights: one of `scales`, or of bytes with `nested` scales and an
/// offset.
struct Scales {
  at::Tensor scales, nested = {}, offset = {};
};

/// `weights` (contiguous; fp32, bf16 or fp16) from codes and scales.
void dequantize(const at::Tensor& codes, const Scales& scales, const at::Tensor& weights);

}  // namespace ac_advisor::trainer::nf4
