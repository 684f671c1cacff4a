#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "options_parse.hpp"

namespace ac_advisor::options {

/// `text` is the part of `given.value` that is the size: "40GiB" of "budget:40GiB".
[[nodiscard]] std::int64_t parse_bytes(const Given& given, std::string_view text);
/// The shortest text without decimals that parse_bytes reads as `bytes`.
[[nodiscard]] std::string size_text(std::int64_t bytes);

}  // namespace ac_advisor::options
