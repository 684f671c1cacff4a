// Pointwise ops: LibTorch's, into memory that the executor has allocated.
#include <cmath>

#include "trainer/kernels/aten/aten.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::aten {

at::Tensor number(double value, const at::Tensor& like) {
  const MemoryTracker::Scope outside(nullptr);
  const at::ScalarType type = !like.is_floating_point()          ? at::kLong
                              : like.scalar_type() == at::kFloat ? at::kFloat
                                                                 : at::kDouble;
  at::Tensor scalar = at::scalar_tensor(value, type);
  scalar.unsafeGetTensorImpl()->set_wrapped_number(true);
  return scalar;
}

/// The output may have the input's tokens as rows.
void cast(const Call& c) {
  const at::Tensor x = c.in(0), y = c.out();
  y.copy_(x.dim() == y.dim() ? x : x.view(y.sizes()));
}
/// Also the gradient of a sum over k rows each, [tokens, H], back to [tokens x k, H]; and one
/// number a sequence, for each of its tokens.
void clone(const Call& c) {
  const at::Tensor x = c.in(0), y = c.out();
  const ir::Rearrange& how = c.attributes<ir::Rearrange>();
  if (how.what != ir::Moved::nothing)
    rearrange(x, y, how);
  else if (x.dim() == 1 && x.numel() < y.numel())
    y.view({x.size(0), -1}).copy_(x.unsqueeze(1));
  else if (x.numel() < y.numel())
    y.view({x.size(0), -1, x.size(1)}).copy_(x.unsqueeze(1));
  else
    y.copy_(x.view_as(y));
}

void add(const Call& c) {
  at::Tensor y = c.out();
  const auto [alpha, transposed] = c.attributes<ir::Add>();
  at::add_out(
      y, c.in(0), transposed ? c.in(1).t() : c.in(1),
      y.is_floating_point() ? at::Scalar(alpha) : at::Scalar(static_cast<std::int64_t>(alpha)));
}

void add_scalar(const Call& c) {
  at::Tensor y = c.out();
  const at::Tensor x = c.in(0);
  y.copy_(x.numel() == y.numel() ? x.view_as(y) : x.expand_as(y));
  at::add_out(y, y, number(c.attributes<ir::Number>().value, y));
}

void mul(const Call& c) {
  at::Tensor y = c.out();
  const at::Tensor a = c.in(0), b = c.in(1);
  if (a.dim() < 3 && b.dim() == 1 && y.dim() == 3)  // positions, or a batch's, times frequencies
    at::mul_out(y, a.view({y.size(0), y.size(1), 1}), b.view({1, 1, -1}));
  else if (a.dim() == 4 && b.dim() == 3)  // all heads by one table a sequence
    at::mul_out(y, a, b.unsqueeze(1));
  else
    at::mul_out(y, a, b);
}

void mul_scalar(const Call& c) {
  at::Tensor y = c.out();
  at::mul_out(y, c.in(0), number(c.attributes<ir::Number>().value, y));
}

void div(const Call& c) {
  at::Tensor y = c.out();
  if (c.inputs() == 1)
    at::div_out(y, c.in(0).expand_as(y), number(c.attributes<ir::Number>().value, y));
  else
    at::div_out(y, c.in(0), c.in(1));
}

void clamp(const Call& c) {
  at::Tensor y = c.out();
  const auto [low, high] = c.attributes<ir::Clamp>();
  constexpr double no_end = 0x1p62;  // of whole numbers
  const bool below = std::abs(low) < no_end, above = std::abs(high) < no_end;
  if (below) at::clamp_min_out(y, c.in(0), number(low, y));
  if (!below && !above) y.copy_(c.in(0));
  if (above) at::clamp_max_out(y, below ? y : c.in(0), number(high, y));
}

void abs(const Call& c) {
  at::Tensor y = c.out();
  at::abs_out(y, c.in(0));
}

void neg(const Call& c) {
  at::Tensor y = c.out();
  at::neg_out(y, c.in(0));
}
void pow(const Call& c) {
  at::Tensor y = c.out();
  at::pow_out(y, c.in(0), c.attributes<ir::Power>().exponent);
}
void rsqrt(const Call& c) {
  at::Tensor y = c.out();
  at::rsqrt_out(y, c.in(0));
}
void exp(const Call& c) {
  at::Tensor y = c.out();
  at::exp_out(y, c.in(0));
}
void log(const Call& c) {
  at::Tensor y = c.out();
  at::log_out(y, c.in(0));
}
void cos(const Call& c) {
  at::Tensor y = c.out();
  at::cos_out(y, c.in(0));
}
void sin(const Call& c) {
  at::Tensor y = c.out();
  at::sin_out(y, c.in(0));
}
void silu(const Call& c) {
  at::Tensor y = c.out();
  at::silu_out(y, c.in(0));
}
void silu_backward(const Call& c) {
  at::Tensor y = c.out();
  at::silu_backward_out(y, c.in(0), c.in(1));
}
void gelu(const Call& c) {
  at::Tensor y = c.out();
  at::gelu_out(y, c.in(0), "tanh");
}
void gelu_backward(const Call& c) {
  at::Tensor y = c.out();
  at::gelu_backward_out(y, c.in(0), c.in(1), "tanh");
}
void sigmoid(const Call& c) {
  at::Tensor y = c.out();
  at::sigmoid_out(y, c.in(0));
}
/// Without the buffer that LibTorch's own has on a CPU.
void log_sigmoid(const Call& c) {
  at::Tensor y = c.out();
  at::neg_out(y, c.in(0));
  at::softplus_out(y, y, 1.0, 20.0);
  y.neg_();
}
void tanh(const Call& c) {
  at::Tensor y = c.out();
  at::tanh_out(y, c.in(0));
}
void tanh_backward(const Call& c) {
  at::Tensor y = c.out();
  at::tanh_backward_out(y, c.in(0), c.in(1));
}

void fill(const Call& c) { c.out().fill_(c.attributes<ir::Number>().value); }

void eye(const Call& c) {
  const at::Tensor y = c.out();
  y.zero_();
  y.diagonal().fill_(1);
}

void copy(const Call& c) {
  c.in(0).copy_(c.in(1));
  if (c.outputs() > 0) static_cast<void>(c.out());
}

void accumulate(const Call& c) {
  at::Tensor y = c.out();
  at::add_out(y, c.in(0), c.in(1).view_as(y));
}

void accumulate_inplace(const Call& c) {
  const at::Tensor kept = c.in(0);
  kept.add_(c.in(1).view_as(kept));
  if (c.outputs() > 0) static_cast<void>(c.out());
}

}  // namespace ac_advisor::trainer::aten
