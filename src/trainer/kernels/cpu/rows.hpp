#pragma once

#include <ATen/ATen.h>

#include <cstdint>

/// Loops over one row of fp32 numbers, compiled for several instruction sets and chosen at start.
namespace ac_advisor::trainer::cpu {

[[nodiscard]] float dot(const float* a, const float* b, std::int64_t n);
[[nodiscard]] float largest(const float* x, std::int64_t n);
/// Sum of exp(x - shift).
[[nodiscard]] float sum_exp(const float* x, float shift, std::int64_t n);
/// y = exp(x - shift) * scale
void exp_scaled(const float* x, float shift, float scale, float* y, std::int64_t n);
/// y = x * scale * w
void scale_by(const float* x, float scale, const float* w, float* y, std::int64_t n);
/// dx = (g * w - x * mean) * scale, `mean` = dot(g * w, x) * scale² / n
void norm_gradient(const float* g, const float* w, const float* x, float mean, float scale,
                   float* dx, std::int64_t n);
/// sum += a * b * scale
void add_product(const float* a, const float* b, float scale, float* sum, std::int64_t n);
void multiply(const float* a, const float* b, float* y, std::int64_t n);
void add(const float* a, const float* b, float* y, std::int64_t n);
/// y = silu(gate) * up
void silu_mul(const float* gate, const float* up, float* y, std::int64_t n);
void silu_mul_gradient(const float* g, const float* gate, const float* up, float* dgate, float* dup,
                       std::int64_t n);
void gelu_mul(const float* gate, const float* up, float* y, std::int64_t n);
void gelu_mul_gradient(const float* g, const float* gate, const float* up, float* dgate, float* dup,
                       std::int64_t n);
/// y1 = x1 * c1 - x2 * s1, y2 = x2 * c2 + x1 * s2: the two halves of a head
void rotate(const float* x1, const float* x2, const float* c1, const float* c2, const float* s1,
            const float* s2, float* y1, float* y2, std::int64_t n);
/// y = cap * tanh(x / cap)
void soft_cap(const float* x, float cap, float* y, std::int64_t n);
/// y *= 1 - (capped / cap)²
void soft_cap_gradient(const float* capped, float cap, float* y, std::int64_t n);

void widen(const at::BFloat16* x, float* y, std::int64_t n);
void narrow(const float* x, at::BFloat16* y, std::int64_t n);

/// Where row r (in row-major order of all but the last dimension) of a tensor begins; its last
/// dimension is contiguous.
class RowOffsets {
 public:
  explicit RowOffsets(const at::Tensor& x);
  [[nodiscard]] std::int64_t operator()(std::int64_t row) const;
  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  std::int64_t sizes_[4]{1, 1, 1, 1}, strides_[4]{0, 0, 0, 0}, rows_ = 1;
};

/// A row as fp32: where it lies, or widened into `scratch`.
[[nodiscard]] const float* load(const at::Tensor& x, std::int64_t offset, float* scratch,
                                std::int64_t n);
/// Where to compute a row: in place if it is fp32, else in `scratch`.
[[nodiscard]] float* target(const at::Tensor& y, std::int64_t offset, float* scratch);
/// Ends what `target` began.
void store(const at::Tensor& y, std::int64_t offset, const float* scratch, std::int64_t n);

/// Floats of this thread, kept between calls; `slot` tells several apart.
[[nodiscard]] float* thread_scratch(std::int64_t n, int slot);

}  // namespace ac_advisor::trainer::cpu
