// Sizes: "40GiB", "16GB", "1.5TiB", "123456".
#include <algorithm>
#include <array>
#include <limits>

#include "ac_advisor/model/options.hpp"
#include "options_size.hpp"

namespace ac_advisor {
namespace options {
namespace {

struct Unit {
  std::string_view text;
  std::int64_t bytes;
};
constexpr std::array<Unit, 9> units = {{{"TiB", 1LL << 40},
                                        {"TB", 1'000'000'000'000},
                                        {"GiB", 1LL << 30},
                                        {"GB", 1'000'000'000},
                                        {"MiB", 1LL << 20},
                                        {"MB", 1'000'000},
                                        {"KiB", 1LL << 10},
                                        {"kB", 1'000},
                                        {"B", 1}}};
// Six decimals of a TiB stay below 2^63 when multiplied out.
constexpr std::size_t most_decimals = 6;

bool is_digit(char character) { return character >= '0' && character <= '9'; }

std::int64_t unit_of(const Given& given, std::string_view text) {
  if (text.empty()) return 1;
  // "40gb" is no other unit than GB; "40g" may be either.
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (const Unit& unit : units)
    if (std::equal(unit.text.begin(), unit.text.end(), text.begin(), text.end(), same))
      return unit.bytes;
  std::string near;
  for (const Unit& unit : units) {
    const bool same_letter = (unit.text[0] | 0x20) == (text[0] | 0x20);
    if (same_letter && unit.text != "B")
      near += (near.empty() ? "" : " or ") + std::string(unit.text);
  }
  refuse(given, "the unit must be KiB, MiB, GiB, TiB, kB, MB, GB, TB or none for bytes" +
                    (near.empty() ? std::string() : "; did you mean " + near + "?"));
}

}  // namespace

std::int64_t parse_bytes(const Given& given, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) ++at;
  const std::string_view whole = text.substr(0, at);
  std::string_view decimals;
  if (at < text.size() && text[at] == '.') {
    const std::size_t from = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    decimals = text.substr(from, at - from);
    if (decimals.empty() || decimals.size() > most_decimals)
      refuse(given, "a size has one to six decimals, such as 1.5GiB");
  }
  if (whole.empty()) refuse(given, "a size is a number and its unit, such as 40GiB");
  const std::int64_t unit = unit_of(given, text.substr(at));
  if (unit == 1 && !decimals.empty()) refuse(given, "a number of bytes has no decimals");

  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t number = 0;
  for (const char character : whole) {
    const std::int64_t digit = character - '0';
    if (number > (most / unit - digit) / 10) refuse(given, "a size is at most 8388607TiB");
    number = number * 10 + digit;
  }
  std::int64_t fraction = 0, scale = 1;
  for (const char character : decimals) {
    fraction = fraction * 10 + (character - '0');
    scale *= 10;
  }
  const std::int64_t rest = fraction * unit / scale;
  if (number * unit > most - rest) refuse(given, "a size is at most 8388607TiB");
  return number * unit + rest;
}

std::string size_text(std::int64_t bytes) {
  for (const Unit& unit : units)
    if (unit.bytes > 1 && bytes >= unit.bytes && bytes % unit.bytes == 0)
      return std::to_string(bytes / unit.bytes) + std::string(unit.text);
  return std::to_string(bytes);
}

}  // namespace options

std::int64_t parse_size(const std::string& option, const std::string& text) {
  return options::parse_bytes({option, text}, text);
}

}  // namespace ac_advisor
