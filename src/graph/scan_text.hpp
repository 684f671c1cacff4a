#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

/// JSON as a graph's capture writes it, without a document of it.
namespace ac_advisor::graph {

/// Thrown by what scans, and caught by scan_graph alone.
struct Unusual {};

/// JSON as it comes. All that is taken is valid JSON; what is not taken may be.
class Text {
 public:
  explicit Text(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  /// The next character that is no white space is `c`: it is taken.
  bool next(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!next(c)) throw Unusual{};
  }
  void expect_end() {
    if (next('\0') || at_ != end_) throw Unusual{};
  }

  /// ASCII without escapes.
  std::string_view string() {
    expect('"');
    const char* const begin = at_;
    while (at_ != end_ && *at_ != '"') {
      if (*at_ < ' ' || *at_ > '~' || *at_ == '\\') throw Unusual{};
      ++at_;
    }
    if (at_ == end_) throw Unusual{};
    return {begin, static_cast<std::size_t>(at_++ - begin)};
  }

  /// Digits alone, of a number up to `most`.
  std::int64_t integer(std::int64_t most) {
    const char* const begin = skip_to_digit();
    std::int64_t value = 0;
    constexpr std::ptrdiff_t most_digits = 18;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      if (at_ - begin == most_digits) throw Unusual{};
      value = 10 * value + (*at_++ - '0');
    }
    if (*begin == '0' && at_ - begin > 1) throw Unusual{};
    if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) throw Unusual{};
    if (value > most) throw Unusual{};
    return value;
  }

  /// With a minus before it, or none.
  std::int64_t signed_integer(std::int64_t most) {
    const bool negative = next('-');
    if (negative && (at_ == end_ || *at_ < '1' || *at_ > '9')) throw Unusual{};
    return negative ? -integer(most) : integer(most);
  }

  double number(double most) {
    const char* const begin = skip_to_digit();
    std::array<char, 40> text{};
    std::size_t length = 0;
    for (; at_ != end_ && std::string_view("0123456789.eE+-").find(*at_) != std::string_view::npos;
         ++at_) {
      if (length + 1 == text.size()) throw Unusual{};
      text[length++] = *at_;
    }
    const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
    if (*begin == '0' && digit(1)) throw Unusual{};
    const auto* const point = std::find(text.begin(), text.end(), '.');
    if (point != text.end() && !digit(static_cast<std::size_t>(point - text.begin()) + 1))
      throw Unusual{};
    // Not from_chars, which libc++ 14 (the page's) lacks for double.
    char* after = nullptr;
    const double value = std::strtod(text.data(), &after);
    if (after != text.data() + length || !(value <= most)) throw Unusual{};
    return value;
  }

  bool truth() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("true"), true}, {"false", false}})
      if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    throw Unusual{};
  }

 private:
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  const char* skip_to_digit() {
    skip_space();
    if (at_ == end_ || *at_ < '0' || *at_ > '9') throw Unusual{};
    return at_;
  }

  const char* at_;
  const char* end_;
};

inline void require(bool holds) {
  if (!holds) throw Unusual{};
}

template <typename Entry>
void scan_list(Text& t, const Entry& entry) {
  t.expect('[');
  if (t.next(']')) return;
  do entry();
  while (t.next(','));
  t.expect(']');
}

/// Of the keys, each at most once; a bit for each that is there.
template <std::size_t n, typename Value>
std::uint32_t scan_object(Text& t, const std::array<std::string_view, n>& keys,
                          const Value& value) {
  static_assert(n < 32);
  std::uint32_t there = 0;
  std::ptrdiff_t after = 0;  // the one before: they mostly come in the order of `keys`
  t.expect('{');
  if (t.next('}')) return there;
  do {
    const std::string_view key = t.string();
    auto place = std::find(keys.begin() + after, keys.end(), key);
    if (place == keys.end()) place = std::find(keys.begin(), keys.end(), key);
    const auto found = static_cast<std::size_t>(place - keys.begin());
    if (found == n || (there >> found & 1U) != 0) throw Unusual{};
    there |= 1U << found;
    after = static_cast<std::ptrdiff_t>(found) + 1;
    t.expect(':');
    value(found);
  } while (t.next(','));
  t.expect('}');
  return there;
}

}  // namespace ac_advisor::graph
