#include "json/plain_text.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace ac_advisor::json {
namespace {

using Sax = nlohmann::json_sax<nlohmann::ordered_json>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class PlainText {
 public:
  PlainText(std::string_view text, Sax& sax)
      : at_(text.data()), end_(at_ + text.size()), sax_(sax) {}

  bool read() {
    if (!value()) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  [[nodiscard]] char here() const { return at_ == end_ ? '\0' : *at_; }
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool take(char c) {
    if (here() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }

  bool value() {
    skip_space();
    switch (here()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string() && sax_.string(text_);
      case 't':
        return take("true") && sax_.boolean(true);
      case 'f':
        return take("false") && sax_.boolean(false);
      case 'n':
        return take("null") && sax_.null();
      default:
        return number();
    }
  }

  /// Nothing nests deeper than `sax` lets it.
  bool object() {
    ++at_;
    sax_.start_object(0);
    skip_space();
    if (take('}')) return sax_.end_object();
    do {
      skip_space();
      if (!string() || !sax_.key(text_)) return false;
      skip_space();
      if (!take(':') || !value()) return false;
      skip_space();
    } while (take(','));
    return take('}') && sax_.end_object();
  }

  bool array() {
    ++at_;
    sax_.start_array(0);
    skip_space();
    if (take(']')) return sax_.end_array();
    do {
      if (!value()) return false;
      skip_space();
    } while (take(','));
    return take(']') && sax_.end_array();
  }

  bool string() {
    if (!take('"')) return false;
    const char* const begin = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && *at_ >= ' ' && *at_ <= '~') ++at_;
    text_.assign(begin, at_);
    return take('"');
  }

  bool digits() {
    const char* const begin = at_;
    while (is_digit(here())) ++at_;
    return at_ != begin;
  }

  bool number() {
    const char* const begin = at_;
    const bool negative = take('-');
    const bool zero = here() == '0';
    const char* const first = at_;
    if (!digits() || (zero && at_ - first > 1)) return false;
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (!digits()) return false;
    }
    if (here() == 'e' || here() == 'E') {
      whole = false;
      ++at_;
      if (here() == '+' || here() == '-') ++at_;
      if (!digits()) return false;
    }
    if (whole && at_ - first > 18) return false;  // beyond 64 bits, or near
    if (whole && negative) return made<std::int64_t>(begin, &Sax::number_integer);
    if (whole) return made<std::uint64_t>(begin, &Sax::number_unsigned);
    text_.assign(begin, at_);  // strtod as nlohmann's: not every standard library has from_chars
    char* stop = nullptr;
    const double number = std::strtod(text_.c_str(), &stop);
    return *stop == '\0' && std::isfinite(number) && sax_.number_float(number, {});
  }

  template <typename Number>
  bool made(const char* begin, bool (Sax::*tell)(Number)) {
    Number number = 0;
    const auto [stop, error] = std::from_chars(begin, at_, number);
    return error == std::errc() && stop == at_ && (sax_.*tell)(number);
  }

  const char* at_;
  const char* end_;
  Sax& sax_;
  std::string text_;  ///< of the string that was read last
};

}  // namespace

bool read_plain_text(std::string_view text, Sax& sax) { return PlainText(text, sax).read(); }

}  // namespace ac_advisor::json
