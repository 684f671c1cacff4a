#include "trainer/kernels/nf4.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "trainer/kernels/dynamic_map.hpp"

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

void quantize_scales(const at::Tensor& scales, const at::Tensor& bytes, const at::Tensor& nested,
                     const at::Tensor& offset) {
  offset.copy_(scales.mean());
  const at::Tensor around = scales - offset;
  const std::span values(around.const_data_ptr<float>(), static_cast<std::size_t>(around.numel()));
  auto* to = bytes.mutable_data_ptr<std::uint8_t>();
  auto* scale = nested.mutable_data_ptr<float>();
  constexpr std::size_t step = dynamic_map::block;
  for (std::size_t begin = 0; begin < values.size(); begin += step)
    scale[begin / step] = dynamic_map::quantize_block(
        dynamic_map::signed_map(), values.subspan(begin, std::min(step, values.size() - begin)),
        to + begin);
}

void dequantize_scales(const at::Tensor& bytes, const at::Tensor& nested,
                       const at::Tensor& scales) {
  const auto& map = dynamic_map::signed_map();
  const auto* from = bytes.const_data_ptr<std::uint8_t>();
  const auto* scale = nested.const_data_ptr<float>();
  auto* to = scales.mutable_data_ptr<float>();
  for (std::int64_t b = 0; b < scales.numel(); ++b)
    to[b] = map[from[b]] * scale[b / dynamic_map::block];
}

namespace {

/// `scale(b)` is that of block b.
template <typename Scale>
void dequantize_by(const at::Tensor& codes, const at::Tensor& weights, const Scale& scale) {
  const std::int64_t n = weights.numel();
  const auto* bytes = codes.const_data_ptr<std::uint8_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, weights.scalar_type(), "nf4::dequantize", [&] {
        auto* to = weights.mutable_data_ptr<scalar_t>();
        at::parallel_for(
            0, (n + block - 1) / block, 256, [&](std::int64_t first, std::int64_t last) {
              for (std::int64_t b = first; b < last; ++b) {
                const float of_block = scale(b);
                for (std::int64_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
                  const unsigned pair = bytes[i / 2];
                  const unsigned code = i % 2 == 0 ? pair >> 4U : pair & 15U;
                  to[i] = static_cast<scalar_t>(code_book[code] * of_block);
                }
              }
            });
      });
}

}  // namespace

void dequantize(const at::Tensor& codes, const Scales& of, const at::Tensor& weights) {
  if (!of.nested.defined()) {
    const auto* scales = of.scales.const_data_ptr<float>();
    dequantize_by(codes, weights, [=](std::int64_t b) { return scales[b]; });
    return;
  }
  const auto& map = dynamic_map::signed_map();
  const auto* bytes = of.scales.const_data_ptr<std::uint8_t>();
  const auto* nested = of.nested.const_data_ptr<float>();
  const float offset = of.offset.item<float>();
  dequantize_by(codes, weights, [=, &map](std::int64_t b) {
    return map[bytes[b]] * nested[b / dynamic_map::block] + offset;
  });
}

}  // namespace ac_advisor::trainer::nf4
