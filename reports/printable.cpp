// Names come from files: what a terminal would obey, or misread, is shown as a mark instead.
#include <cstdint>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

struct Decoded {
  std::uint32_t point = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

Decoded decode(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80U) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || at + bytes > text.size()) return {};
  std::uint32_t point = lead & (0xFFU >> (bytes + 1U));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return {};
    point = (point << 6U) | (byte(at + i) & 0x3FU);
  }
  const bool too_long = (bytes == 3 && point < 0x800U) || (bytes == 4 && point < 0x10000U);
  const bool surrogate = point >= 0xD800U && point <= 0xDFFFU;
  return too_long || surrogate || point > 0x10FFFFU ? Decoded{} : Decoded{point, bytes};
}

/// Control characters, and those that reorder or hide the text around them (bidirectional marks,
/// zero-width characters, separators of lines).
bool obeyed(std::uint32_t p) {
  return p < 0x20U || (p >= 0x7FU && p <= 0x9FU) || (p >= 0x200BU && p <= 0x200FU) ||
         (p >= 0x2028U && p <= 0x202EU) || (p >= 0x2060U && p <= 0x206FU) || p == 0xFEFFU;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = decode(text, at);
    const bool space = c.point == '\n' || c.point == '\r' || c.point == '\t';
    if (c.bytes == 0 || (obeyed(c.point) && !space))
      safe += "?";
    else if (space)
      safe += ' ';
    else
      safe += text.substr(at, c.bytes);
    at += c.bytes == 0 ? 1 : c.bytes;
  }
  return safe;
}

}  // namespace ac_advisor::reports
