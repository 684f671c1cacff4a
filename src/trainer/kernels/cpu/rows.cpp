#include "trainer/kernels/cpu/rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

// AddressSanitizer runs before the loader resolves such functions.
#if defined(__SANITIZE_ADDRESS__)
#define AC_ADVISOR_CLONES
#else
#define AC_ADVISOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace ac_advisor::trainer::cpu {
namespace {

/// e^x to 1 ulp or so: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes' expf coefficients).
inline __attribute__((always_inline)) float exp_of(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float n = std::nearbyint(x * 1.44269504088896341F);
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(bits);
}
inline __attribute__((always_inline)) float sigmoid(float x) { return 1.0F / (1.0F + exp_of(-x)); }
inline __attribute__((always_inline)) float tanh_of(float x) {
  return 2.0F * sigmoid(2.0F * x) - 1.0F;
}

// gelu(x) = x / 2 (1 + tanh(k (x + c x³)))  (Hendrycks and Gimpel 2016)
constexpr float gelu_k = 0.7978845608028654F, gelu_c = 0.044715F;

}  // namespace

AC_ADVISOR_CLONES float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

AC_ADVISOR_CLONES float largest(const float* x, std::int64_t n) {
  float most = x[0];
  for (std::int64_t i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

AC_ADVISOR_CLONES float sum_exp(const float* x, float shift, std::int64_t n) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) sum += exp_of(x[i] - shift);
  return sum;
}

AC_ADVISOR_CLONES void exp_scaled(const float* x, float shift, float scale, float* y,
                                  std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp_of(x[i] - shift) * scale;
}

AC_ADVISOR_CLONES void scale_by(const float* x, float scale, const float* w, float* y,
                                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * w[i];
}

AC_ADVISOR_CLONES void norm_gradient(const float* g, const float* w, const float* x, float mean,
                                     float scale, float* dx, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) dx[i] = (g[i] * w[i] - x[i] * mean) * scale;
}

AC_ADVISOR_CLONES void add_product(const float* a, const float* b, float scale, float* sum,
                                   std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += a[i] * b[i] * scale;
}

AC_ADVISOR_CLONES void multiply(const float* a, const float* b, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

AC_ADVISOR_CLONES void add(const float* a, const float* b, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

AC_ADVISOR_CLONES void silu_mul(const float* gate, const float* up, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

AC_ADVISOR_CLONES void silu_mul_gradient(const float* g, const float* gate, const float* up,
                                         float* dgate, float* dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = gate[i], s = sigmoid(x), gi = g[i];
    const float slope = s * (1.0F + x * (1.0F - s)), u = up[i];
    dup[i] = gi * x * s;
    dgate[i] = gi * u * slope;
  }
}

AC_ADVISOR_CLONES void gelu_mul(const float* gate, const float* up, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = gate[i], t = tanh_of(gelu_k * (x + gelu_c * x * x * x));
    y[i] = 0.5F * x * (1.0F + t) * up[i];
  }
}

AC_ADVISOR_CLONES void gelu_mul_gradient(const float* g, const float* gate, const float* up,
                                         float* dgate, float* dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = gate[i], t = tanh_of(gelu_k * (x + gelu_c * x * x * x)), gi = g[i];
    const float inner = gelu_k * (1.0F + 3.0F * gelu_c * x * x);
    const float slope = 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner, u = up[i];
    dup[i] = gi * 0.5F * x * (1.0F + t);
    dgate[i] = gi * u * slope;
  }
}

AC_ADVISOR_CLONES void rotate(const float* x1, const float* x2, const float* c1, const float* c2,
                              const float* s1, const float* s2, float* y1, float* y2,
                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = x1[i], b = x2[i];
    y1[i] = a * c1[i] - b * s1[i];
    y2[i] = b * c2[i] + a * s2[i];
  }
}

AC_ADVISOR_CLONES void soft_cap(const float* x, float cap, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = cap * tanh_of(x[i] / cap);
}

AC_ADVISOR_CLONES void soft_cap_gradient(const float* capped, float cap, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float t = capped[i] / cap;
    y[i] *= 1.0F - t * t;
  }
}

AC_ADVISOR_CLONES void widen(const at::BFloat16* x, float* y, std::int64_t n) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(x);
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}

AC_ADVISOR_CLONES void narrow(const float* x, at::BFloat16* y, std::int64_t n) {
  auto* to = reinterpret_cast<std::uint16_t*>(y);
  for (std::int64_t i = 0; i < n; ++i) {  // round to nearest, ties to even; NaN stays NaN
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    to[i] = static_cast<std::uint16_t>(nan ? 0x7FC0U : rounded);
  }
}

RowOffsets::RowOffsets(const at::Tensor& x) {
  TORCH_INTERNAL_ASSERT(x.dim() <= 5 && (x.size(-1) <= 1 || x.stride(-1) == 1), "rows of ",
                        x.sizes());
  const std::int64_t leading = x.dim() - 1;
  for (std::int64_t d = 0; d < leading; ++d) {
    sizes_[4 - leading + d] = x.size(d);
    strides_[4 - leading + d] = x.stride(d);
    rows_ *= x.size(d);
  }
}

std::int64_t RowOffsets::operator()(std::int64_t row) const {
  std::int64_t offset = 0;
  for (int d = 3; d >= 0 && row > 0; --d) {
    offset += row % sizes_[d] * strides_[d];
    row /= sizes_[d];
  }
  return offset;
}

const float* load(const at::Tensor& x, std::int64_t offset, float* scratch, std::int64_t n) {
  if (x.scalar_type() == at::kFloat) return x.const_data_ptr<float>() + offset;
  widen(x.const_data_ptr<at::BFloat16>() + offset, scratch, n);
  return scratch;
}

float* target(const at::Tensor& y, std::int64_t offset, float* scratch) {
  return y.scalar_type() == at::kFloat ? y.mutable_data_ptr<float>() + offset : scratch;
}

void store(const at::Tensor& y, std::int64_t offset, const float* scratch, std::int64_t n) {
  if (y.scalar_type() != at::kFloat)
    narrow(scratch, y.mutable_data_ptr<at::BFloat16>() + offset, n);
}

float* thread_scratch(std::int64_t n, int slot) {
  static thread_local std::array<std::vector<float>, 8> buffers;
  std::vector<float>& buffer = buffers[static_cast<std::size_t>(slot)];
  if (buffer.size() < static_cast<std::size_t>(n)) buffer.resize(static_cast<std::size_t>(n));
  return buffer.data();
}

}  // namespace ac_advisor::trainer::cpu
