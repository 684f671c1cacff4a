#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace ac_advisor::trainer {

/// SplitMix64's finalizer (Steele, Lea, Flood 2014): a counter becomes 64 independent bits.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
/// A key made of several parts, order counting.
[[nodiscard]] constexpr std::uint64_t combine(std::uint64_t key, std::uint64_t part) {
  return mix(key ^ mix(part));
}
/// Uniform in [0, 1), from element `counter` of stream `key`.
[[nodiscard]] constexpr double uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<double>(mix(key ^ (counter * 0xD1342543DE82EF95ULL)) >> 11) * 0x1p-53;
}

/// Multiplies each element by `scale`, or with probability p by 0. Which elements are dropped
/// depends on `key` and the element's row-major index alone.
void apply_dropout(at::Tensor& x, double p, double scale, std::uint64_t key);

}  // namespace ac_advisor::trainer
