// The fused rotary embedding on the host's threads, against LibTorch's ops.
#include <torch/csrc/autograd/autograd.h>

#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

at::Tensor rotate_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
}

/// transformers' apply_rotary_pos_emb in fp32, on the first columns that the table has.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor wide = x.to(at::kFloat), c = cos.to(at::kFloat), s = sin.to(at::kFloat);
  const std::int64_t width = cos.size(-1);
  const at::Tensor part = wide.narrow(-1, 0, width);
  const at::Tensor turned = part * c + rotate_half(part) * s;
  return at::cat({turned, wide.narrow(-1, width, x.size(-1) - width)}, -1);
}

device::Rope half_call(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos,
                       const at::Tensor& sin, bool back) {
  return {.type = element(x),
          .x = rows(x),
          .y = rows(y),
          .cos = cos.data_ptr(),
          .sin = sin.data_ptr(),
          .rows = row_count(x),
          .columns = x.size(-1),
          .tokens = x.size(2),
          .width = cos.size(-1),
          .back = back};
}

at::Tensor heads(std::int64_t n, std::int64_t d, at::ScalarType type) {
  return random({2, 5, n * d}, type).view({2, 5, n, d}).transpose(1, 2);
}

}  // namespace

TEST_CASE("device kernels: rope turns q and k as transformers does, in place or not, and back") {
  at::manual_seed(6);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const auto& [d, width] :
         {std::pair<std::int64_t, std::int64_t>{128, 128}, {64, 64}, {80, 32}, {22, 22}, {14, 6}})
      for (const bool in_place : {false, true})
        for (const bool odd : {false, true}) {
          CAPTURE(d);
          CAPTURE(odd);
          const at::Tensor q = heads(6, d, type), k = heads(2, d, type);
          // The halves of the table differ, so that a mix-up shows.
          const at::Tensor cos = random({5, width}, type), sin = random({5, width}, type);
          const at::Tensor from_q = odd ? unaligned(q) : q.clone(), from_k = k.clone();
          const at::Tensor to_q = in_place ? from_q : at::full_like(q, NAN),
                           to_k = in_place ? from_k : at::full_like(k, NAN);
          device::rope(half_call(from_q, to_q, cos, sin, false),
                       half_call(from_k, to_k, cos, sin, false), nullptr);
          CHECK(relative(to_q, rotated(q, cos, sin)) < bound(type));
          CHECK(relative(to_k, rotated(k, cos, sin)) < bound(type));

          const at::Tensor x = q.to(at::kFloat).requires_grad_(true);
          const at::Tensor g = heads(6, d, type).clone();
          const auto expected =
              torch::autograd::grad({rotated(x, cos, sin)}, {x}, {g.to(at::kFloat)});
          const at::Tensor dq = in_place ? g : at::full_like(g, NAN);
          device::rope(half_call(g, dq, cos, sin, true), {}, nullptr);
          CHECK(relative(dq, expected[0]) < bound(type));
        }
}

TEST_CASE("device kernels: rope refuses what is not whole sequences") {
  const at::Tensor x = at::zeros({1, 1, 3, 8}), table = at::zeros({2, 8});
  device::Rope call = half_call(x, x, table, table, false);
  call.tokens = 2;
  CHECK_THROWS_WITH_AS(device::rope(call, {}, nullptr), "rope: rows are not whole sequences",
                       std::invalid_argument);
}

}  // namespace ac_advisor::test
