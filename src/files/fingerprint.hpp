#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ac_advisor::files {

/// FNV-1a, 64 bits, as 16 hexadecimal digits: http://www.isthe.com/chongo/tech/comp/fnv/
[[nodiscard]] inline std::string fingerprint(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", h);
}

}  // namespace ac_advisor::files
