// LibTorch's flash attention for CPUs; grouped keys and values are not expanded.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

void sdpa(const Call& c) {
  const at::Tensor q = c.in(0);
  for (std::size_t i = 2; i < c.outputs(); ++i) c.out(i).zero_();  // a GPU's random state
  auto [y, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, c.in(1), c.in(2), /*dropout_p=*/0.0, c.attributes<ir::Sdpa>().causal, {},
      c.attributes<ir::Sdpa>().scale);
  c.adopt(0, y);
  c.adopt(1, log_sum_exp);
}

void sdpa_backward(const Call& c) {
  // inputs: gradient, q, k, v, output, log-sum-exp
  for (std::size_t i = 0; i < 3; ++i)
    if (!c.out_value(i).permuted) static_cast<void>(c.out(i));
  auto gradients = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.in(5), /*dropout_p=*/0.0,
      c.attributes<ir::Sdpa>().causal, {}, c.attributes<ir::Sdpa>().scale);
  const at::Tensor made[] = {std::get<0>(gradients), std::get<1>(gradients),
                             std::get<2>(gradients)};
  for (std::size_t i = 0; i < 3; ++i) {
    // LibTorch's are in the order (B, S, heads, D); the program's follow q, k and v.
    if (c.out_value(i).permuted)
      c.adopt(i, made[i]);
    else
      c.out(i).copy_(made[i]);
  }
}

}  // namespace ac_advisor::trainer::cpu
