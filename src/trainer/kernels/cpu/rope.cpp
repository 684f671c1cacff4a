// Rotary embedding of q and k in one launch (Su et al. 2021, in the rotate-half form of
// transformers), where they lie or into new memory. Elements beyond the table's width pass.
#include <ATen/Parallel.h>

#include <algorithm>

#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/cpu/rows.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

/// x (B, heads, S, D) by cos and sin (1, S, R); `back` is the transposed rotation.
void turn(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin,
          bool back) {
  const std::int64_t d = x.size(-1), width = cos.size(-1), half = width / 2, tokens = x.size(2);
  const RowOffsets x_row(x), y_row(y);
  at::parallel_for(0, x_row.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t table = r % tokens * width;
      const float* c = load(cos, table, thread_scratch(width, 0), width);
      const float* s = load(sin, table, thread_scratch(width, 1), width);
      const float* in = load(x, x_row(r), thread_scratch(d, 2), d);
      float* out = target(y, y_row(r), thread_scratch(d, 3));
      if (out != in) std::copy(in + width, in + d, out + width);
      if (back)  // the halves change places: dx2 = g2 c2 - g1 s1, dx1 = g1 c1 + g2 s2
        rotate(in + half, in, c + half, c, s, s + half, out + half, out, half);
      else
        rotate(in, in + half, c, c + half, s, s + half, out, out + half, half);
      store(y, y_row(r), out, d);
    }
  });
}

}  // namespace

void rope(const Call& c) {
  const at::Tensor cos = c.in(2), sin = c.in(3);
  turn(c.in(0), c.out(0), cos, sin, /*back=*/false);
  turn(c.in(1), c.out(1), cos, sin, /*back=*/false);
}

void rope_backward(const Call& c) {
  const at::Tensor cos = c.in(2), sin = c.in(3);
  turn(c.in(0), c.out(0), cos, sin, /*back=*/true);
  turn(c.in(1), c.out(1), cos, sin, /*back=*/true);
}

}  // namespace ac_advisor::trainer::cpu
