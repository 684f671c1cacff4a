#include "trainer/kernels/nf4.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace ac_advisor::trainer::nf4 {
namespace {

/// The nearest code; halfway between two the lower, as torch.bucketize has it.
std::uint8_t code_of(float scaled) {
  std::uint8_t code = 0;
  while (code + 1U < code_book.size() && (code_book[code] + code_book[code + 1U]) / 2 < scaled)
    ++code;
  return code;
}

}  // namespace

void quantize(const at::Tensor& weights, const at::Tensor& codes, const at::Tensor& scales) {
  const at::Tensor flat = weights.to(at::kFloat).contiguous().view({-1});
  const std::int64_t n = flat.numel();
  const auto* from = flat.const_data_ptr<float>();
  auto* bytes = codes.mutable_data_ptr<std::uint8_t>();
  auto* scale = scales.mutable_data_ptr<float>();
  at::parallel_for(0, (n + block - 1) / block, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * block, end = std::min(n, begin + block);
      float largest = 0;
      for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(from[i]));
      scale[b] = largest;
      const float inverse = 1.0F / std::max(largest, 1e-38F);
      const auto code = [&](std::int64_t i) -> std::uint8_t {
        return i < end ? code_of(std::clamp(from[i] * inverse, -1.0F, 1.0F)) : code_of(0);
      };
      for (std::int64_t i = begin; i < end; i += 2)
        bytes[i / 2] = static_cast<std::uint8_t>(code(i) << 4U | code(i + 1));
    }
  });
}

void dequantize(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& weights) {
  const std::int64_t n = weights.numel();
  const auto* bytes = codes.const_data_ptr<std::uint8_t>();
  const auto* scale = scales.const_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, weights.scalar_type(), "nf4::dequantize", [&] {
        auto* to = weights.mutable_data_ptr<scalar_t>();
        at::parallel_for(0, n, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const unsigned pair = bytes[i / 2];
            const unsigned code = i % 2 == 0 ? pair >> 4U : pair & 15U;
            to[i] = static_cast<scalar_t>(code_book[code] * scale[i / block]);
          }
        });
      });
}

}  // namespace ac_advisor::trainer::nf4
