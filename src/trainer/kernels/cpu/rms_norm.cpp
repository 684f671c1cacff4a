// RMSNorm in one pass (Zhang and Sennrich 2019), with the residual addition before it or not. What
// it keeps is x and 1/rms a row; dx overwrites dy.
//   y = x r w,  r = 1 / sqrt(mean(x²) + eps);  Gemma's has 1 + w for w
//   dx = r (g w - x r² dot(g w, x) / n),  dw = Σ_rows g x r
#include <ATen/Parallel.h>

#include <cmath>

#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/cpu/rows.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

constexpr std::int64_t grain = 16;

/// The factor of each column, as fp32.
const float* factors(const at::Tensor& w, bool plus_one, float* scratch, std::int64_t n) {
  const float* loaded = load(w, 0, scratch, n);
  if (!plus_one) return loaded;
  for (std::int64_t i = 0; i < n; ++i) scratch[i] = loaded[i] + 1.0F;
  return scratch;
}

/// `sum` receives a + b where b is given; the norm is of that.
void forward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& w, const at::Tensor& y,
             const at::Tensor& inverse_rms, const at::Tensor& sum, const ir::RmsNorm& norm) {
  const std::int64_t n = a.size(-1);
  const RowOffsets a_row(a), y_row(y), sum_row(sum.defined() ? sum : a), b_row(b.defined() ? b : a);
  float* scales = inverse_rms.mutable_data_ptr<float>();
  const bool rounds = y.scalar_type() != at::kFloat && !norm.unit_offset;
  at::parallel_for(0, a_row.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const float* weight = factors(w, norm.unit_offset, thread_scratch(n, 0), n);
    for (std::int64_t r = begin; r < end; ++r) {
      const float* x = load(a, a_row(r), thread_scratch(n, 1), n);
      if (b.defined()) {
        const float* other = load(b, b_row(r), thread_scratch(n, 2), n);
        float* joined = target(sum, sum_row(r), thread_scratch(n, 3));
        add(x, other, joined, n);
        store(sum, sum_row(r), joined, n);
        x = load(sum, sum_row(r), thread_scratch(n, 1), n);  // as rounded as the stored sum
      }
      const float scale =
          1.0F / std::sqrt(dot(x, x, n) / static_cast<float>(n) + static_cast<float>(norm.epsilon));
      scales[r] = scale;
      float* out = target(y, y_row(r), thread_scratch(n, 4));
      if (rounds) {  // transformers: the normalized value is cast back before the weight
        for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * scale;
        auto* narrow_row = y.mutable_data_ptr<at::BFloat16>() + y_row(r);
        narrow(out, narrow_row, n);
        widen(narrow_row, out, n);
        multiply(out, weight, out, n);
      } else {
        scale_by(x, scale, weight, out, n);
      }
      store(y, y_row(r), out, n);
    }
  });
}

/// dx may lie where g does; `other` (where defined) is the gradient that the sum itself has.
void backward(const at::Tensor& g, const at::Tensor& dx_out, const at::Tensor& x,
              const at::Tensor& w, const at::Tensor& inverse_rms, const at::Tensor& other,
              const at::Tensor& dw, const ir::RmsNorm& norm) {
  const std::int64_t n = x.size(-1);
  const RowOffsets g_row(g), dx_row(dx_out), x_row(x), other_row(other.defined() ? other : g);
  const float* scales = inverse_rms.const_data_ptr<float>();
  // Columns apart, rows in order: dw is the same for any number of threads.
  at::parallel_for(0, n, std::max<std::int64_t>(64, n / 8),
                   [&](std::int64_t begin, std::int64_t end) {
                     const std::int64_t width = end - begin;
                     float* total = thread_scratch(width, 5);
                     std::fill(total, total + width, 0.0F);
                     for (std::int64_t r = 0; r < x_row.rows(); ++r)
                       add_product(load(g, g_row(r) + begin, thread_scratch(n, 1), width),
                                   load(x, x_row(r) + begin, thread_scratch(n, 2), width),
                                   scales[r], total, width);
                     float* out = target(dw, begin, thread_scratch(width, 6));
                     if (out != total) std::copy(total, total + width, out);
                     store(dw, begin, out, width);
                   });
  at::parallel_for(0, x_row.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const float* weight = factors(w, norm.unit_offset, thread_scratch(n, 0), n);
    for (std::int64_t r = begin; r < end; ++r) {
      const float* gradient = load(g, g_row(r), thread_scratch(n, 1), n);
      const float* row = load(x, x_row(r), thread_scratch(n, 2), n);
      float* weighted = thread_scratch(n, 3);
      multiply(gradient, weight, weighted, n);
      const float scale = scales[r];
      const float mean = dot(weighted, row, n) * scale * scale / static_cast<float>(n);
      float* dx = target(dx_out, dx_row(r), thread_scratch(n, 4));
      norm_gradient(gradient, weight, row, mean, scale, dx, n);
      if (other.defined()) add(dx, load(other, other_row(r), thread_scratch(n, 5), n), dx, n);
      store(dx_out, dx_row(r), dx, n);
    }
  });
}

}  // namespace

void rms_norm(const Call& c) {
  forward(c.in(0), {}, c.in(1), c.out(0), c.out(1), {}, c.attributes<ir::RmsNorm>());
}

void add_rms_norm(const Call& c) {
  forward(c.in(0), c.in(1), c.in(2), c.out(0), c.out(1), c.out(2), c.attributes<ir::RmsNorm>());
}

void rms_norm_backward(const Call& c) {
  backward(c.in(0), c.out(0), c.in(1), c.in(2), c.in(3), {}, c.out(1), c.attributes<ir::RmsNorm>());
}

void add_rms_norm_backward(const Call& c) {
  backward(c.in(0), c.out(0), c.in(1), c.in(2), c.in(3), c.in(4), c.out(1),
           c.attributes<ir::RmsNorm>());
}

}  // namespace ac_advisor::trainer::cpu
