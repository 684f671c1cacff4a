#pragma once

#include <cstdint>
#include <limits>

namespace ac_advisor::trace {

/// Timestamps and durations beyond this are no measurement; differences of two within it fit.
inline constexpr std::int64_t clock_limit = std::int64_t{1} << 61;

/// Files may hold any number: a total stops at the largest one.
inline void add_to(std::int64_t& total, std::int64_t part) {
  if (__builtin_add_overflow(total, part, &total)) total = std::numeric_limits<std::int64_t>::max();
}

}  // namespace ac_advisor::trace
