// Matrix products through LibTorch: MKL in fp32, oneDNN in bf16 (whose scratch is a workspace).
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

at::Tensor rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

void product(at::Tensor& y, const at::Tensor& a, const at::Tensor& b, ir::Form form) {
  switch (form) {
    case ir::Form::nt:
      at::mm_out(y, a, b.t());
      return;
    case ir::Form::nn:
      at::mm_out(y, a, b);
      return;
    case ir::Form::tn:
      at::mm_out(y, a.t(), b);
      return;
  }
}

}  // namespace

void mm(const Call& c) {
  const at::Tensor a = rows(c.in(0)), b = rows(c.in(1));
  at::Tensor y = rows(c.out());
  product(y, a, b, c.op().form);
}

void addmm(const Call& c) {
  at::Tensor y = rows(c.out());
  at::addmm_out(y, c.in(0), rows(c.in(1)), c.in(2).t());
}

void baddbmm(const Call& c) {
  at::Tensor y = c.out();
  at::baddbmm_out(y, c.in(0), c.in(1), c.in(2));
}

/// [B, heads, M, K] by [B, heads, K, N], either of them transposed as `form` says.
void bmm(const Call& c) {
  const auto folded = [](const at::Tensor& x) { return x.reshape({-1, x.size(-2), x.size(-1)}); };
  const at::Tensor a = folded(c.in(0)), b = folded(c.in(1));
  at::Tensor y = folded(c.out());
  switch (c.op().form) {
    case ir::Form::nt:
      at::bmm_out(y, a, b.transpose(1, 2));
      return;
    case ir::Form::nn:
      at::bmm_out(y, a, b);
      return;
    case ir::Form::tn:
      at::bmm_out(y, a.transpose(1, 2), b);
      return;
  }
}

/// Rows [begin, end) of expert e times its weight; offsets [E] are the ends.
void grouped_mm(const Call& c) {
  const at::Tensor a = c.in(0), b = c.in(1), offsets = c.in(2);
  const at::Tensor y = c.out();
  const auto ends = offsets.accessor<std::int32_t, 1>();
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < offsets.size(0); ++e) {
    const std::int64_t size = ends[e] - begin;
    const bool weight = c.op().form == ir::Form::tn;  // b holds rows, y is a weight's gradient
    if (size == 0) {
      if (weight) y[e].zero_();
      continue;
    }
    const at::Tensor left = a.narrow(0, begin, size);
    at::Tensor part = weight ? y[e] : y.narrow(0, begin, size);
    product(part, left, weight ? b.narrow(0, begin, size) : b[e], c.op().form);
    begin = ends[e];
  }
}

}  // namespace ac_advisor::trainer::cpu
