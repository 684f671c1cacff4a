#pragma once

#include <algorithm>
#include <cstdint>

namespace ac_advisor::trainer::cuda::device {

/// Batches of at most `most` of `count` things: f(first, how many).
template <class F>
void in_batches(std::int64_t count, int most, F f) {
  for (std::int64_t first = 0; first < count; first += most)
    f(first, static_cast<int>(std::min<std::int64_t>(most, count - first)));
}
constexpr std::int64_t batches(std::int64_t count, int most) { return (count + most - 1) / most; }

}  // namespace ac_advisor::trainer::cuda::device
