#pragma once

#include <cstdint>
#include <cstring>

namespace ac_advisor::passes::compile {

/// A number's bits, for a hash: std::bit_cast, which the libc++ of the planner's page has not.
[[nodiscard]] inline std::uint64_t bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

}  // namespace ac_advisor::passes::compile
