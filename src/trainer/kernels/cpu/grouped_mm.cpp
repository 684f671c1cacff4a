// Products of a mixture's experts, one after another.
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

/// Rows [begin, end) of expert e times its weight; offsets [E] are the ends.
void grouped_mm(const Call& c) {
  const at::Tensor a = c.in(0), b = c.in(1), offsets = c.in(2);
  const at::Tensor y = c.out();
  const auto ends = offsets.accessor<std::int32_t, 1>();
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < offsets.size(0); ++e) {
    const std::int64_t size = ends[e] - begin;
    const bool weight =
        c.attributes<ir::Product>().form == ir::Form::tn;  // b holds rows, y is a weight's gradient
    if (size == 0) {
      if (weight) y[e].zero_();
      continue;
    }
    const at::Tensor left = a.narrow(0, begin, size);
    at::Tensor part = weight ? y[e] : y.narrow(0, begin, size);
    const at::Tensor right = weight ? b.narrow(0, begin, size) : b[e];
    if (weight)
      at::mm_out(part, left.t(), right);
    else
      at::mm_out(part, left, c.attributes<ir::Product>().form == ir::Form::nt ? right.t() : right);
    begin = ends[e];
  }
}

}  // namespace ac_advisor::trainer::cpu
