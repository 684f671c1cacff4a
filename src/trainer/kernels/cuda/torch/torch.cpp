#include "trainer/kernels/cuda/torch/torch.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <cublas_v2.h>

namespace ac_advisor::trainer::cuda {
namespace {

/// An operand as column-major cuBLAS sees it: a row-major matrix is its transpose.
struct Operand {
  cublasOperation_t transposed;
  std::int64_t leading;
};
Operand operand(const at::Tensor& x) {
  if (x.stride(1) == 1) return {CUBLAS_OP_N, std::max(x.stride(0), x.size(1))};
  return {CUBLAS_OP_T, std::max(x.stride(1), x.size(0))};
}

}  // namespace

device::Stream stream() { return at::cuda::getCurrentCUDAStream().stream(); }

void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  const Operand left = operand(b), right = operand(a);  // outᵀ = bᵀ aᵀ
  const float alpha = 1.0F, beta = accumulate ? 1.0F : 0.0F;
  const cudaDataType_t type = a.scalar_type() == at::kFloat ? CUDA_R_32F : CUDA_R_16BF;
  // LibTorch's handle: its stream, and the one workspace that the plan counts.
  TORCH_CUDABLAS_CHECK(cublasGemmEx_64(
      at::cuda::getCurrentCUDABlasHandle(), left.transposed, right.transposed, out.size(1),
      out.size(0), a.size(1), &alpha, b.const_data_ptr(), type, left.leading, a.const_data_ptr(),
      type, right.leading, &beta, out.mutable_data_ptr(), CUDA_R_32F, out.stride(0),
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

FlashAttention flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               std::optional<double> scale) {
  const auto made = at::_scaled_dot_product_flash_attention(
      q, k, v, /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  return {std::get<0>(made), std::get<1>(made)};
}

std::array<at::Tensor, 3> flash_attention_backward(const at::Tensor& gradient, const at::Tensor& q,
                                                   const at::Tensor& k, const at::Tensor& v,
                                                   const FlashAttention& forward,
                                                   std::optional<double> scale) {
  // Without dropout the generator's state is passed on and never read.
  const at::Tensor no_state = at::empty({2}, q.options().dtype(at::kLong));
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
      gradient, q, k, v, forward.output, forward.log_sum_exp, /*cum_seq_q=*/{}, /*cum_seq_k=*/{},
      q.size(2), k.size(2), /*dropout_p=*/0.0, /*is_causal=*/true, no_state, no_state, scale);
  return {dq, dk, dv};
}

}  // namespace ac_advisor::trainer::cuda
