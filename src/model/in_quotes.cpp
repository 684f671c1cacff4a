#include "in_quotes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ac_advisor::model {
namespace {

constexpr std::size_t longest = 60;  // bytes

// Length of the printable UTF-8 sequence at `text`'s start; 0 where there is none.
std::size_t sequence(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t size = first >= 0xf0   ? 4
                           : first >= 0xe0 ? 3
                           : first >= 0xc3 ? 2
                                           : 0;  // C2: C1 controls
  if (size == 0 || first > 0xf4 || text.size() < size) return 0;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(size), continues)
             ? size
             : 0;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < text.size() && at < longest) {
    const std::size_t size = sequence(text.substr(at));
    if (size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else {
      out += text.substr(at, size);
    }
    at += std::max<std::size_t>(size, 1);
  }
  return out + (at < text.size() ? "…\"" : "\"");
}

std::string plain(std::string_view text) {
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace ac_advisor::model
