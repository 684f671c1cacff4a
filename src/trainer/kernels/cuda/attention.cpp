// LibTorch's flash attention (Dao 2023); grouped keys and values are not expanded.
#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/torch/torch.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

/// Takes what LibTorch has made as the output where it lies as the program says: LibTorch's follow
/// the layouts of q, k and v.
void put(const Call& c, std::size_t i, const at::Tensor& made) {
  const bool permuted = c.out_value(i).permuted && made.dim() == 4;
  const bool in_order = permuted ? made.transpose(1, 2).is_contiguous() : made.is_contiguous();
  if (in_order && static_cast<std::int64_t>(made.storage().nbytes()) == c.out_bytes(i))
    c.adopt(i, made);
  else
    c.out(i).copy_(made);
}

}  // namespace

void sdpa(const Call& c) {
  const FlashAttention made =
      flash_attention(c.in(0), c.in(1), c.in(2), c.attributes<ir::Sdpa>().scale);
  put(c, 0, made.output);
  put(c, 1, made.log_sum_exp);
}

void sdpa_backward(const Call& c) {
  // inputs: gradient, q, k, v, output, log-sum-exp
  const auto made = flash_attention_backward(c.in(0), c.in(1), c.in(2), c.in(3), {c.in(4), c.in(5)},
                                             c.attributes<ir::Sdpa>().scale);
  for (std::size_t i = 0; i < 3; ++i) put(c, i, made[i]);
}

}  // namespace ac_advisor::trainer::cuda
