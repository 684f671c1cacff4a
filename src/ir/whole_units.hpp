#pragma once

#include <cstdint>

namespace ac_advisor::ir {

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
[[nodiscard]] constexpr std::int64_t rounded(std::int64_t n, std::int64_t unit) {
  return ceil_div(n, unit) * unit;
}
/// CUDA's caching allocator gives out whole units of 512 bytes.
[[nodiscard]] constexpr std::int64_t allocated(std::int64_t bytes) { return rounded(bytes, 512); }

}  // namespace ac_advisor::ir
