#include "trainer/kernels/cuda/torch/torch.hpp"

#include <ATen/cuda/CUDABlas.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>

namespace ac_advisor::trainer::cuda {
namespace {

/// An operand as column-major cuBLAS sees it: a row-major matrix is its transpose.
struct Operand {
  char transposed;
  std::int64_t leading;
};
Operand operand(const at::Tensor& x) {
  if (x.stride(1) == 1) return {'n', std::max(x.stride(0), x.size(1))};
  return {'t', std::max(x.stride(1), x.size(0))};
}

template <typename T>
void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, float beta) {
  const Operand left = operand(b), right = operand(a);  // outᵀ = bᵀ aᵀ
  at::cuda::blas::gemm<T, float>(left.transposed, right.transposed, out.size(1), out.size(0),
                                 a.size(1), 1.0F, b.const_data_ptr<T>(), left.leading,
                                 a.const_data_ptr<T>(), right.leading, beta,
                                 out.mutable_data_ptr<float>(), out.stride(0));
}

}  // namespace

device::Stream stream() { return at::cuda::getCurrentCUDAStream().stream(); }

void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  const float beta = accumulate ? 1.0F : 0.0F;
  if (a.scalar_type() == at::kFloat)
    gemm<float>(out, a, b, beta);
  else
    gemm<at::BFloat16>(out, a, b, beta);
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
