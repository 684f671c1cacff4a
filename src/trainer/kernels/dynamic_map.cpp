#include "trainer/kernels/dynamic_map.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::dynamic_map {
namespace {

constexpr int exponents = 7;

/// Each exponent's numbers are the means of neighbours between a tenth of it and itself, twice as
/// many as of the one below.
Map make(bool with_sign) {
  const MemoryTracker::Scope outside(nullptr);  // its bytes are no part of the step
  Map map{};                                    // a zero, and what no exponent fills
  std::size_t n = 1;
  map[n++] = 1.0F;
  for (int e = 0; e < exponents; ++e) {
    const int items = (with_sign ? 1 << e : 2 << e) + 1;
    const at::Tensor boundaries = at::linspace(0.1, 1.0, items, at::kFloat);
    const auto* boundary = boundaries.const_data_ptr<float>();
    const auto power = static_cast<float>(std::pow(10.0, e - (exponents - 1)));
    for (int i = 0; i + 1 < items; ++i) {
      const float number = power * ((boundary[i] + boundary[i + 1]) / 2.0F);
      map[n++] = number;
      if (with_sign) map[n++] = -number;
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const Map& signed_map() {
  static const Map map = make(true);
  return map;
}
const Map& unsigned_map() {
  static const Map map = make(false);
  return map;
}

std::uint8_t code_of(std::span<const float, 256> map, float scaled, Ties ties) {
  const auto above = std::lower_bound(map.begin(), map.end(), scaled);
  if (above == map.begin()) return 0;
  const auto i = static_cast<std::size_t>(above - map.begin());
  if (i == map.size()) return 255;
  const float up = map[i] - scaled, down = scaled - map[i - 1];
  return static_cast<std::uint8_t>(up < down || (up == down && ties == Ties::up) ? i : i - 1);
}

float quantize_block(std::span<const float, 256> map, std::span<const float> values,
                     std::uint8_t* codes, Ties ties) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i] = code_of(map, largest > 0 ? values[i] / largest : 0.0F, ties);
  return largest;
}

}  // namespace ac_advisor::trainer::dynamic_map
