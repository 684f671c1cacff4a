// LLM.int8()'s product: rows in 8 bits by rows in 8 bits, in 32, and both scales.
#include <ATen/Parallel.h>

#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/int8.hpp"

namespace ac_advisor::trainer::cpu {

void quantize_rows(const Call& c) { int8::quantize(c.in(0), c.out(1), c.out(0)); }

void mm_int8(const Call& c) {
  const at::Tensor x = c.in(0), w = c.in(1), y = c.out();
  const std::int64_t inner = x.size(-1), words = w.size(0);
  const auto* a = reinterpret_cast<const std::int8_t*>(x.const_data_ptr<std::uint8_t>());
  const auto* b = reinterpret_cast<const std::int8_t*>(w.const_data_ptr<std::uint8_t>());
  auto* to = y.mutable_data_ptr<std::int32_t>();
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t n = 0; n < words; ++n) {
        std::int32_t sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += a[r * inner + k] * b[n * inner + k];
        to[r * words + n] = sum;
      }
  });
}

/// int8_mm_dequant: by both scales, each over 127.
void mm_dequant(const Call& c) {
  const at::Tensor product = c.in(0), rows = c.in(1), columns = c.in(2), y = c.out();
  const std::int64_t words = columns.numel();
  constexpr float both = 1.0F / (127.0F * 127.0F);
  const auto* from = product.const_data_ptr<std::int32_t>();
  const auto* row = rows.const_data_ptr<float>();
  const auto* column = columns.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<at::Half>();
  at::parallel_for(0, rows.numel(), 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t n = 0; n < words; ++n)
        to[r * words + n] = static_cast<at::Half>(static_cast<float>(from[r * words + n]) *
                                                  (row[r] * column[n]) * both);
  });
}

}  // namespace ac_advisor::trainer::cpu
