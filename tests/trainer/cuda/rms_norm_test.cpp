// The fused RMSNorm on the host's threads, against LibTorch's ops and autograd.
#include <torch/csrc/autograd/autograd.h>

#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

constexpr double epsilon = 1e-5;

/// transformers' LlamaRMSNorm, or Gemma's.
at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, bool unit_offset) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor normal = wide * (wide.square().mean(-1, true) + epsilon).rsqrt();
  if (unit_offset) return (normal * (weight.to(at::kFloat) + 1.0)).to(x.scalar_type());
  return normal.to(x.scalar_type()) * weight;
}

struct Forward {
  at::Tensor y, inverse_rms, sum;
};
Forward forward(const at::Tensor& x, const at::Tensor& weight, bool unit_offset,
                const at::Tensor& added = {}) {
  Forward f{at::full_like(x, NAN), at::full({row_count(x)}, NAN), {}};
  if (added.defined()) f.sum = at::full_like(x, NAN);
  device::NormForward call{.type = element(x),
                           .x = rows(x),
                           .y = rows(f.y),
                           .weight = weight.data_ptr(),
                           .inverse_rms = f.inverse_rms.data_ptr<float>(),
                           .rows = row_count(x),
                           .columns = x.size(-1),
                           .epsilon = static_cast<float>(epsilon),
                           .unit_offset = unit_offset};
  if (added.defined()) {
    call.added = rows(added);
    call.sum = rows(f.sum);
  }
  device::rms_norm(call, nullptr);
  return f;
}

at::Tensor inverse_rms_of(const at::Tensor& x) {
  return (x.to(at::kFloat).square().mean(-1) + epsilon).rsqrt().flatten();
}

/// dx where g lay, and dweight.
std::pair<at::Tensor, at::Tensor> backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& weight, bool unit_offset,
                                           const at::Tensor& other, std::int64_t partial_rows) {
  const at::Tensor dx = g.is_contiguous() ? g.clone() : unaligned(g);
  const at::Tensor inverse_rms = inverse_rms_of(x);
  const at::Tensor dweight = at::full_like(weight, NAN);
  const at::Tensor partials = at::full({partial_rows, x.size(-1)}, NAN);
  device::NormBackward call{.type = element(x),
                            .g = rows(dx),
                            .dx = rows(dx),
                            .x = rows(x),
                            .weight = weight.data_ptr(),
                            .inverse_rms = inverse_rms.data_ptr<float>(),
                            .dweight = dweight.data_ptr(),
                            .partials = partials.data_ptr<float>(),
                            .partial_rows = partial_rows,
                            .rows = row_count(x),
                            .columns = x.size(-1),
                            .unit_offset = unit_offset};
  if (other.defined()) call.other = rows(other);
  device::rms_norm_backward(call, nullptr);
  return {dx, dweight};
}

// Part of a warp a row, a warp, several, four accesses a thread, rows that are read again.
constexpr std::int64_t widths[] = {1, 4, 7, 64, 96, 128, 520, 2048, 5000, 8192, 16392};

}  // namespace

TEST_CASE("device kernels: rms_norm is transformers' for any width, fp32 and bf16") {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t columns : widths)
      for (const bool unit_offset : {false, true}) {
        CAPTURE(columns);
        CAPTURE(unit_offset);
        const at::Tensor x = random({2, 3, columns}, type), weight = random({columns}, type);
        const Forward f = forward(x, weight, unit_offset);
        const at::Tensor expected = norm(x, weight, unit_offset);
        CHECK(relative(f.y, expected) < bound(type));
        CHECK(relative(f.inverse_rms, inverse_rms_of(x)) < 1e-6);
        if (type == at::kBFloat16 && columns > 500) CHECK(differing(f.y, expected) < 0.01);
      }
}

TEST_CASE("device kernels: rms_norm of a residual addition norms the rounded sum") {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t columns : widths) {
      CAPTURE(columns);
      const at::Tensor x = random({5, columns}, type), added = random({5, columns}, type),
                       weight = random({columns}, type);
      const Forward f = forward(x, weight, false, added);
      CHECK(at::equal(f.sum, x + added));
      const at::Tensor expected = norm(x + added, weight, false);
      CHECK(relative(f.y, expected) < bound(type));
      if (type == at::kBFloat16 && columns > 500) CHECK(differing(f.y, expected) < 0.01);
    }
}

TEST_CASE(
    "device kernels: rms_norm takes the heads of a (B, S, heads x D) buffer, and odd addresses") {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = random({64}, type);
    const at::Tensor heads = random({2, 5, 6 * 64}, type).view({2, 5, 6, 64}).transpose(1, 2);
    CHECK(relative(forward(heads, weight, false).y, norm(heads, weight, false)) < bound(type));
    const at::Tensor x = random({9, 64}, type);
    const at::Tensor expected = norm(x, weight, false);
    CHECK(relative(forward(unaligned(x), weight, false).y, expected) < bound(type));
    CHECK(relative(forward(x, unaligned(weight), false).y, expected) < bound(type));
    const at::Tensor part = random({9, 100}, type).narrow(1, 3, 64);
    CHECK(relative(forward(part, weight, false).y, norm(part, weight, false)) < bound(type));
  }
}

TEST_CASE(
    "device kernels: rms_norm_backward is autograd's, in place, with the sum's own gradient") {
  at::manual_seed(4);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t columns : widths)
      for (const std::int64_t partial_rows : {1, 3, 100})
        for (const bool adds : {false, true}) {
          CAPTURE(columns);
          CAPTURE(partial_rows);
          const bool unit_offset = partial_rows == 3;
          const at::Tensor x = random({7, columns}, type), g = random({7, columns}, type),
                           weight = random({columns}, type);
          const at::Tensor other = adds ? random({7, columns}, type) : at::Tensor();
          const at::Tensor wide_x = x.to(at::kFloat).requires_grad_(true),
                           wide_weight = weight.to(at::kFloat).requires_grad_(true);
          const auto expected = torch::autograd::grad({norm(wide_x, wide_weight, unit_offset)},
                                                      {wide_x, wide_weight}, {g.to(at::kFloat)});
          const at::Tensor expected_dx = adds ? expected[0] + other.to(at::kFloat) : expected[0];
          const auto [dx, dweight] = backward(g, x, weight, unit_offset, other, partial_rows);
          // One column: dx is the small difference of two equal terms.
          if (columns > 1) CHECK(relative(dx, expected_dx) < bound(type));
          CHECK(relative(dweight, expected[1]) < bound(type));
        }
}

TEST_CASE("device kernels: rms_norm_backward of strided rows, of odd addresses, of no rows") {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = random({128}, type);
    const at::Tensor x = random({2, 5, 3 * 128}, type).view({2, 5, 3, 128}).transpose(1, 2);
    const at::Tensor g = random({2, 3, 5, 128}, type);
    const at::Tensor wide_x = x.to(at::kFloat).requires_grad_(true),
                     wide_weight = weight.to(at::kFloat).requires_grad_(true);
    const auto expected = torch::autograd::grad({norm(wide_x, wide_weight, false)},
                                                {wide_x, wide_weight}, {g.to(at::kFloat)});
    for (const at::Tensor& gradient : {g, g.transpose(1, 2).contiguous().transpose(1, 2)}) {
      const auto [dx, dweight] = backward(gradient, x, weight, false, {}, 4);
      CHECK(relative(dx, expected[0]) < bound(type));
      CHECK(relative(dweight, expected[1]) < bound(type));
    }
    const at::Tensor none = at::empty({0, 128}, x.options());
    CHECK(at::equal(backward(none, none, weight, false, {}, 4).second, at::zeros_like(weight)));
  }
}

}  // namespace ac_advisor::test
