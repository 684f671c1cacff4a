// Matrix products through LibTorch: MKL in fp32, oneDNN in bf16 (whose scratch is a workspace).
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {
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
  product(y, a, b, c.attributes<ir::Product>().form);
}

/// Of the weight that was dequantized for it; of rows in 8 bits it was made before.
void mm_quantized(const Call& c) {
  at::Tensor y = rows(c.out());
  const auto& attributes = c.attributes<ir::QuantizedProduct>();
  if (attributes.inner == 0)
    y.copy_(c.in(1));
  else if (attributes.biased)
    at::addmm_out(y, c.in(c.inputs() - 1), rows(c.in(0)), c.in(1).t());
  else
    product(y, rows(c.in(0)), c.in(1), ir::Form::nt);
}

void addmm(const Call& c) {
  at::Tensor y = rows(c.out());
  at::addmm_out(y, c.in(0), rows(c.in(1)), c.in(2).t());
}

/// [B, heads, M, K] by [B, heads, K, N], either of them transposed as `form` says.
void bmm(const Call& c) {
  const auto folded = [](const at::Tensor& x) { return x.reshape({-1, x.size(-2), x.size(-1)}); };
  const at::Tensor a = folded(c.in(0)), b = folded(c.in(1));
  at::Tensor y = folded(c.out());
  switch (c.attributes<ir::Product>().form) {
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

}  // namespace ac_advisor::trainer::aten
