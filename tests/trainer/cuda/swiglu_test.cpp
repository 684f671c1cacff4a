// The fused act(gate) * up on the host's threads, against LibTorch's ops and autograd.
#include <torch/csrc/autograd/autograd.h>

#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

at::Tensor reference(const at::Tensor& gate, const at::Tensor& up, bool gelu) {
  return (gelu ? at::gelu(gate, "tanh") : at::silu(gate)) * up;
}

constexpr std::int64_t widths[] = {1, 5, 8, 96, 1000, 5632, 20000};

}  // namespace

TEST_CASE("device kernels: swiglu is act(gate) * up, and may write over its inputs") {
  at::manual_seed(7);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t n : widths)
      for (const bool gelu : {false, true}) {
        CAPTURE(n);
        CAPTURE(gelu);
        const at::Tensor gate = random({3, n}, type) * 4, up = random({3, n}, type);
        const at::Tensor expected =
            reference(gate.to(at::kFloat), up.to(at::kFloat), gelu).to(type);
        const at::Tensor y = at::full_like(gate, NAN);
        device::Swiglu call{.type = element(gate),
                            .gate = rows(gate),
                            .up = rows(up),
                            .y = rows(y),
                            .rows = 3,
                            .columns = n,
                            .gelu = gelu};
        device::swiglu(call, nullptr);
        CHECK(relative(y, expected) < bound(type));
        if (type == at::kBFloat16 && n > 500) CHECK(differing(y, expected) < 0.01);
        const at::Tensor shifted = unaligned(gate);
        call.gate = call.y = rows(shifted);
        device::swiglu(call, nullptr);
        CHECK(at::equal(shifted, y));
      }
}

TEST_CASE("device kernels: swiglu_backward is autograd's, over gate and up") {
  at::manual_seed(8);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t n : widths)
      for (const bool gelu : {false, true}) {
        CAPTURE(n);
        CAPTURE(gelu);
        // gate and up are halves of one buffer, as a merged projection makes them.
        const at::Tensor both = random({3, 2 * n}, type), g = random({3, n}, type);
        const at::Tensor gate = both.narrow(1, 0, n), up = both.narrow(1, n, n);
        const at::Tensor wide_gate = gate.to(at::kFloat).requires_grad_(true),
                         wide_up = up.to(at::kFloat).requires_grad_(true);
        const auto expected = torch::autograd::grad({reference(wide_gate, wide_up, gelu)},
                                                    {wide_gate, wide_up}, {g.to(at::kFloat)});
        device::swiglu_backward({.type = element(g),
                                 .g = rows(g),
                                 .gate = rows(gate),
                                 .up = rows(up),
                                 .dgate = rows(gate),
                                 .dup = rows(up),
                                 .rows = 3,
                                 .columns = n,
                                 .gelu = gelu},
                                nullptr);
        CHECK(relative(gate, expected[0]) < bound(type));
        CHECK(relative(up, expected[1]) < bound(type));
      }
}

TEST_CASE("device kernels: swiglu of large numbers stays finite") {
  const at::Tensor gate = at::tensor({-200.0F, -90.0F, 90.0F, 200.0F}), up = at::ones({4});
  const at::Tensor y = at::empty({4});
  for (const bool gelu : {false, true}) {
    device::swiglu(
        {.gate = rows(gate), .up = rows(up), .y = rows(y), .rows = 1, .columns = 4, .gelu = gelu},
        nullptr);
    CHECK(at::allclose(y, at::tensor({0.0F, 0.0F, 90.0F, 200.0F}), 1e-6, 1e-30));
  }
}

}  // namespace ac_advisor::test
