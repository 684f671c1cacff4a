#pragma once

#include <ATen/ATen.h>

/// LLM.int8()'s rows (Dettmers et al. 2022) without outliers: bitsandbytes v0.50 with threshold 0.
namespace ac_advisor::trainer::int8 {

/// Rows of `x` ([rows, columns], floating) as signed bytes, and the largest magnitude of each
/// ([rows] fp32): int8_vectorwise_quant.
void quantize(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales);

/// `weights` ([rows, columns]; fp32 or bf16) from them: MatMul8bitLt.backward.
void dequantize(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& weights);

}  // namespace ac_advisor::trainer::int8
