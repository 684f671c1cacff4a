#pragma once

#include <ATen/ATen.h>

#include "trainer/kernels/cuda/device/device.hpp"

/// LibTorch's tensors as the fused kernels take them, and how far results may be from LibTorch's.
namespace ac_advisor::test {

namespace device = trainer::cuda::device;

inline device::Element element(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? device::Element::f32 : device::Element::bf16;
}

/// x, up to four dimensions, whose last is contiguous.
inline device::Rows rows(const at::Tensor& x) {
  device::Rows r{.data = x.data_ptr()};
  for (std::int64_t d = 0, first = 4 - x.dim(); d < x.dim() - 1; ++d) {
    r.sizes[first + d] = x.size(d);
    r.strides[first + d] = x.stride(d);
  }
  return r;
}

inline std::int64_t row_count(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.numel() / x.size(-1);
}

inline at::Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes).to(type);
}
/// The same numbers, one element beyond an aligned address.
inline at::Tensor unaligned(const at::Tensor& x) {
  const at::Tensor place = at::empty({x.numel() + 1}, x.options()).narrow(0, 1, x.numel());
  return place.view(x.sizes()).copy_(x);
}

/// ‖a - b‖ / ‖b‖; NaN where either has one.
inline double relative(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).norm() / (y.norm() + 1e-30)).item<double>();
}
/// fp32: the order of sums; bf16: half of its last bit, 2^-8 of a number at most.
inline double bound(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 0x1p-8; }

/// Share of elements that are not the same bit for bit: sums in another order move a few results
/// across a rounding boundary, another rounding moves many.
inline double differing(const at::Tensor& a, const at::Tensor& b) {
  return a.ne(b).to(at::kDouble).mean().item<double>();
}

}  // namespace ac_advisor::test
