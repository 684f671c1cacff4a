// LibTorch's flash attention for CPUs; grouped keys and values are not expanded.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <array>
#include <optional>

#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

/// Of queries of all sequences, or of one document.
struct Attended {
  at::Tensor output, log_sum_exp;
};
Attended attend(const ir::Sdpa& how, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::optional<at::Tensor>& mask) {
  auto [y, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, k, v, /*dropout_p=*/0.0, how.causal && !mask, mask, how.scale);
  return {y, log_sum_exp};
}
std::array<at::Tensor, 3> attend_backward(const ir::Sdpa& how, const at::Tensor& gradient,
                                          const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, const Attended& made,
                                          const std::optional<at::Tensor>& mask) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, q, k, v, made.output, made.log_sum_exp, /*dropout_p=*/0.0, how.causal && !mask,
      mask, how.scale);
  return {dq, dk, dv};
}

/// f(first token, tokens) of each document of a row; `offsets`: where they begin, and the end.
template <typename F>
void each_document(const at::Tensor& offsets, F f) {
  const auto* begin = offsets.const_data_ptr<std::int32_t>();
  for (std::int64_t d = 0; d + 1 < offsets.numel(); ++d) f(begin[d], begin[d + 1] - begin[d]);
}

/// A document's rows of (1, heads, tokens, D).
at::Tensor rows(const at::Tensor& x, std::int64_t first, std::int64_t count) {
  return x.narrow(2, first, count);
}
/// Its log-sum-exps, of (heads, tokens).
at::Tensor sums(const at::Tensor& log_sum_exp, std::int64_t first, std::int64_t count) {
  return log_sum_exp.narrow(1, first, count).unsqueeze(0);
}

void sdpa_of_documents(const Call& c) {
  const auto& how = c.attributes<ir::Sdpa>();
  const at::Tensor q = c.in(0), k = c.in(1), v = c.in(2), y = c.out(0), log_sum_exp = c.out(1);
  each_document(c.in(3), [&](std::int64_t first, std::int64_t count) {
    const Attended made = attend(how, rows(q, first, count), rows(k, first, count),
                                 rows(v, first, count), std::nullopt);
    rows(y, first, count).copy_(made.output);
    sums(log_sum_exp, first, count).copy_(made.log_sum_exp);
  });
}

/// inputs: gradient, q, k, v, output, log-sum-exp, random state, where documents begin
void sdpa_backward_of_documents(const Call& c) {
  const auto& how = c.attributes<ir::Sdpa>();
  const at::Tensor gradient = c.in(0), q = c.in(1), k = c.in(2), v = c.in(3), y = c.in(4),
                   log_sum_exp = c.in(5);
  const at::Tensor out[] = {c.out(0), c.out(1), c.out(2)};
  each_document(c.in(7), [&](std::int64_t first, std::int64_t count) {
    const auto made =
        attend_backward(how, rows(gradient, first, count), rows(q, first, count),
                        rows(k, first, count), rows(v, first, count),
                        {rows(y, first, count), sums(log_sum_exp, first, count)}, std::nullopt);
    for (std::size_t i = 0; i < made.size(); ++i) rows(out[i], first, count).copy_(made[i]);
  });
}

}  // namespace

/// inputs: q, k, v, or a mask too; or where documents begin
void sdpa(const Call& c) {
  for (std::size_t i = 2; i < c.outputs(); ++i) c.out(i).zero_();  // a GPU's random state
  const auto& how = c.attributes<ir::Sdpa>();
  if (how.documents > 0) return sdpa_of_documents(c);
  const auto mask = c.inputs() > 3 ? std::optional(c.in(3)) : std::nullopt;
  const Attended made = attend(how, c.in(0), c.in(1), c.in(2), mask);
  c.adopt(0, made.output);
  c.adopt(1, made.log_sum_exp);
}

void sdpa_backward(const Call& c) {
  // inputs: gradient, q, k, v, output, log-sum-exp, random state (2), or a mask too
  const auto& how = c.attributes<ir::Sdpa>();
  if (how.documents > 0) return sdpa_backward_of_documents(c);
  const auto mask = c.inputs() > 8 ? std::optional(c.in(8)) : std::nullopt;
  auto made = attend_backward(how, c.in(0), c.in(1), c.in(2), c.in(3), {c.in(4), c.in(5)}, mask);
  for (std::size_t i = 0; i < made.size(); ++i) {
    // LibTorch's are in the order (B, S, heads, D); the program's follow q, k and v.
    if (c.out_value(i).permuted)
      c.adopt(i, made[i]);
    else
      c.out(i).copy_(made[i]);
    made[i].reset();
  }
}

}  // namespace ac_advisor::trainer::cpu
