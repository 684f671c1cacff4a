#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>

#include "trainer/kernels/cuda/device/device.hpp"

/// What the kernels take from LibTorch's CUDA library, so that they are compiled and tested without
/// one: a test stands in for it on the host.
namespace ac_advisor::trainer::cuda {

/// fp32 or bf16, the two that the raw kernels know.
[[nodiscard]] inline device::Element element(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? device::Element::f32 : device::Element::bf16;
}

/// The stream that this thread's work goes to.
[[nodiscard]] device::Stream stream();

/// out = a b, or out + a b, in fp32, products of bf16 or fp32 summed in fp32. a (M, K) and b (K, N)
/// are row-major or transposed, out (M, N) is row-major.
void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate);

struct FlashAttention {
  at::Tensor output;       ///< (B, heads, S, D), in the memory order (B, S, heads, D)
  at::Tensor log_sum_exp;  ///< (B, heads, S), fp32
};
/// Causal attention of q (B, heads, S, D) and k, v (B, kv heads, S, D), all bf16.
[[nodiscard]] FlashAttention flash_attention(const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, std::optional<double> scale);
/// The gradients of q, k and v, in the memory order (B, S, heads, D).
[[nodiscard]] std::array<at::Tensor, 3> flash_attention_backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const FlashAttention& forward, std::optional<double> scale);

}  // namespace ac_advisor::trainer::cuda
