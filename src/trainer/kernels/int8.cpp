#include "trainer/kernels/int8.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ac_advisor::trainer::int8 {
namespace {

constexpr float largest_code = 127.0F;

}  // namespace

void quantize(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  const std::int64_t columns = x.size(-1);
  auto* to = reinterpret_cast<std::int8_t*>(codes.mutable_data_ptr<std::uint8_t>());
  auto* scale = scales.mutable_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "int8::quantize", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    at::parallel_for(0, scales.numel(), 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const auto* row = from + r * columns;
        float largest = 0;
        for (std::int64_t i = 0; i < columns; ++i)
          largest = std::max(largest, std::abs(static_cast<float>(row[i])));
        scale[r] = largest;
        // A reciprocal first, as there: fp16 has ties that its last bit decides.
        const float factor = largest > 0 ? 1.0F / largest * largest_code : 0.0F;
        for (std::int64_t i = 0; i < columns; ++i)
          to[r * columns + i] =
              static_cast<std::int8_t>(std::nearbyint(static_cast<float>(row[i]) * factor));
      }
    });
  });
}

void dequantize(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& weights) {
  const std::int64_t columns = weights.size(-1);
  const auto* from = reinterpret_cast<const std::int8_t*>(codes.const_data_ptr<std::uint8_t>());
  const auto* scale = scales.const_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, weights.scalar_type(), "int8::dequantize", [&] {
        auto* to = weights.mutable_data_ptr<scalar_t>();
        at::parallel_for(0, scales.numel(), 16, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t r = first; r < last; ++r)
            for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i)
              to[i] = static_cast<scalar_t>(static_cast<float>(from[i]) *
                                            (scale[r] * (1.0F / largest_code)));
        });
      });
}

}  // namespace ac_advisor::trainer::int8
