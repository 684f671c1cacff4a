#include "trace/json_scanner.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 20;
/// Bytes behind a string's last quote that are looked at to tell whether it is the last one.
constexpr std::size_t look_ahead = 512;
constexpr std::size_t max_word = 64;

// What a byte is, by a table: this is where a reader of gigabytes spends its time.
enum : std::uint8_t { space = 1, ends_word = 2, of_number = 4, special = 8 };
constexpr auto classes = [] {
  std::array<std::uint8_t, 256> of{};
  const auto mark = [&](std::string_view bytes, int as) {
    for (const char c : bytes) {
      std::uint8_t& value = of[static_cast<unsigned char>(c)];
      value = static_cast<std::uint8_t>(value | as);
    }
  };
  for (std::size_t c = 0; c < 0x20; ++c) of[c] = special;
  mark("\"\\", special);  // they end a run of a string's plain bytes
  mark(std::string_view(" \n\r\t\0", 5), space | ends_word);
  mark(",]}\":[{", ends_word);
  mark("0123456789.eE+-", of_number);
  return of;
}();
bool is(char c, int what) { return (classes[static_cast<unsigned char>(c)] & what) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  if (word.empty() || !is_digit(word.front())) return false;
  for (const char c : word)
    if (!is(c, of_number)) return false;
  return true;
}

/// What a value may begin with, where it is no string.
bool begins_value(std::string_view rest) {
  if (rest.empty()) return true;
  for (const std::string_view word : {"null", "true", "false", "NaN", "nan", "Inf", "inf", "None"})
    if (rest.starts_with(word)) return true;
  return is_digit(rest.front()) || std::string_view("-\"{[]").find(rest.front()) != rest.npos;
}

}  // namespace

JsonScanner::JsonScanner(files::ByteSource& source, std::string origin)
    : source_(source), origin_(std::move(origin)), buffer_(buffer_size) {}

/// True where so many bytes lie ahead; at the file's end there may be fewer.
bool JsonScanner::need(std::size_t bytes) {
  if (size_ - at_ >= bytes) return true;
  if (at_end_) return false;
  std::memmove(buffer_.data(), buffer_.data() + at_, size_ - at_);
  before_ += at_;
  size_ -= at_;
  at_ = 0;
  while (size_ < buffer_.size() && !at_end_) {
    const std::size_t got = source_.read(buffer_.data() + size_, buffer_.size() - size_);
    at_end_ = got == 0;
    size_ += got;
  }
  return size_ >= bytes;
}

void JsonScanner::skip_space() {
  for (;;) {
    while (at_ < size_ && is(buffer_[at_], space)) ++at_;
    if (at_ < size_ || !need(1)) return;
  }
}

std::size_t JsonScanner::past_space(std::size_t at) const {
  while (at < size_ && is(buffer_[at], space)) ++at;
  return at;
}

JsonScanner::Place JsonScanner::place() const {
  if (open_.empty()) return Place::top;
  if (open_.back() == '[') return Place::element;
  return value_next_ ? Place::member : Place::key;
}

void JsonScanner::refuse(const char* expected) const {
  const auto byte = static_cast<unsigned char>(buffer_[at_]);
  static constexpr char hex[] = "0123456789abcdef";
  const std::string found = byte > 0x20 && byte < 0x7f
                                ? std::string(1, static_cast<char>(byte))
                                : std::string{'0', 'x', hex[byte >> 4U], hex[byte & 15U]};
  throw UserError(origin_ + ": not JSON: byte " + std::to_string(position()) + " is " + found +
                  " where " + expected + " should be");
}

void JsonScanner::cut_off() const {
  throw UserError(origin_ + ": is cut off: it ends at byte " + std::to_string(before_ + size_) +
                  ", within a value; was the program stopped while it wrote the trace?");
}

JsonScanner::Token JsonScanner::open(char bracket) {
  if (open_.size() == max_depth)
    throw UserError(origin_ + ": nested deeper than any trace of torch.profiler");
  ++at_;
  open_ += bracket;
  value_next_ = false;
  return bracket == '{' ? Token::object : Token::array;
}

JsonScanner::Token JsonScanner::close(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '[')) refuse(bracket == '}' ? "]" : "}");
  ++at_;
  open_.pop_back();
  value_next_ = false;
  return bracket == '}' ? Token::object_end : Token::array_end;
}

JsonScanner::Token JsonScanner::bare_word(char first) {
  value_next_ = false;
  if (first == ',' || first == '}') {  // "key": , and "key": }
    ++repairs_;
    text_ = {};
    return Token::word;
  }
  need(max_word + 1);
  std::size_t end = at_;
  while (end < size_ && end - at_ < max_word && !is(buffer_[end], ends_word)) ++end;
  const std::string_view word(buffer_.data() + at_, end - at_);
  if (word.empty() || (!is_digit(first) && !begins_value(word))) refuse("a value");
  at_ = end;
  text_ = word;
  if (is_number(word)) return Token::number;
  if (word != "true" && word != "false" && word != "null") ++repairs_;
  return Token::word;
}

JsonScanner::Token JsonScanner::next() {
  if (!started_) {
    started_ = true;
    need(3);
    if (std::string_view(buffer_.data(), size_).starts_with("\xef\xbb\xbf")) at_ += 3;
  } else if (open_.empty()) {
    skip_space();
    if (at_ < size_) ++repairs_;  // what follows the document is none of it
    return Token::end;
  }
  for (;;) {
    skip_space();
    if (at_ == size_) {
      if (open_.empty()) return Token::end;
      // Of a list of events the last bracket may be missing: "Trace Event Format", JSON Array.
      if (open_ == "[") {
        open_.clear();
        return Token::array_end;
      }
      cut_off();
    }
    const char c = buffer_[at_];
    const Place where = place();
    if (c == '"') {
      scan_string(where);
      if (where != Place::key) {
        value_next_ = false;
        return Token::text;
      }
      value_next_ = true;
      return Token::key;
    }
    if (where == Place::key) {
      if (c == ',') {
        ++at_;
        continue;
      }
      if (c == '}' || c == ']') return close(c);
      refuse("a key");
    }
    if (where == Place::member && c == ':') {
      ++at_;
      continue;
    }
    if (c == '{' || c == '[') return open(c);
    if (where == Place::element && (c == ']' || c == '}')) return close(c);
    if (where == Place::element && c == ',') {
      ++at_;
      continue;
    }
    return bare_word(c);
  }
}

void JsonScanner::leave() {
  const std::size_t outside = open_.size() - 1;
  while (open_.size() > outside)
    if (next() == Token::end) return;
}

void JsonScanner::skip_value() {
  const Token token = next();
  if (token == Token::object || token == Token::array) leave();
}

void JsonScanner::put(std::string_view bytes) {
  scratch_ += bytes.substr(0, max_text - std::min(max_text, scratch_.size()));
}

void JsonScanner::put_code_point(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) {
    put(std::string{byte(code)});
  } else if (code < 0x800) {
    put(std::string{byte(0xC0U | code >> 6U), byte(0x80U | (code & 0x3FU))});
  } else if (code < 0x10000) {
    put(std::string{byte(0xE0U | code >> 12U), byte(0x80U | (code >> 6U & 0x3FU)),
                    byte(0x80U | (code & 0x3FU))});
  } else {
    put(std::string{byte(0xF0U | code >> 18U), byte(0x80U | (code >> 12U & 0x3FU)),
                    byte(0x80U | (code >> 6U & 0x3FU)), byte(0x80U | (code & 0x3FU))});
  }
}

// Most strings lie in the buffer whole and have nothing in them: no copy is made.
void JsonScanner::scan_string(Place place) {
  ++at_;
  need(max_text + look_ahead);
  std::size_t end = at_;
  while (end < size_ && !is(buffer_[end], special)) ++end;
  if (end - at_ <= max_text && end < size_ && buffer_[end] == '"' &&
      (end + look_ahead < size_ || at_end_) && closes(end + 1, place)) {
    text_ = std::string_view(buffer_.data() + at_, end - at_);
    at_ = end + 1;
    return;
  }
  scratch_.clear();
  scan_rest_of_string(place);
  text_ = scratch_;
}

void JsonScanner::scan_rest_of_string(Place place) {
  for (;;) {
    need(look_ahead);
    if (at_ == size_) cut_off();
    std::size_t end = at_;
    while (end < size_ && !is(buffer_[end], special)) ++end;
    put(std::string_view(buffer_.data() + at_, end - at_));
    at_ = end;
    need(look_ahead);
    if (at_ == size_) cut_off();
    const char c = buffer_[at_];
    if (c == '\\') {
      bool ended = false;
      escape(place, ended);
      if (ended) return;
      continue;
    }
    ++at_;
    if (c == '"' && closes(at_, place)) return;
    put(std::string_view(&c, 1));  // a quote or a control byte that nobody escaped
    ++repairs_;
  }
}

/// At a backslash.
void JsonScanner::escape(Place place, bool& ended) {
  static constexpr std::string_view codes = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  const auto hex = [&](std::size_t at) {
    std::uint32_t value = 0;
    if (at + 4 > size_) return std::uint32_t{0x110000};
    const char* const first = buffer_.data() + at;
    const auto [last, error] = std::from_chars(first, first + 4, value, 16);
    return error == std::errc() && last == first + 4 ? value : std::uint32_t{0x110000};
  };
  const char c = at_ + 1 < size_ ? buffer_[at_ + 1] : ' ';
  if (c == '"' && place == Place::member && surely_closes(at_ + 2)) {  // "C:\traces\"
    put("\\");
    ++repairs_;
    at_ += 2;
    ended = true;
  } else if (const std::size_t i = codes.find(c); i != codes.npos) {
    put(meant.substr(i, 1));
    at_ += 2;
  } else if (std::uint32_t code = c == 'u' ? hex(at_ + 2) : 0x110000; code < 0x110000) {
    at_ += 6;
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (high && at_ + 1 < size_ && buffer_[at_] == '\\' && buffer_[at_ + 1] == 'u') {
      const std::uint32_t low = hex(at_ + 2);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        at_ += 6;
      }
    }
    put_code_point(code);
  } else {  // a path of Windows
    put("\\");
    ++repairs_;
    ++at_;
  }
}

/// A string begins here, and a colon follows it.
bool JsonScanner::is_key(std::size_t quote) const {
  const std::size_t limit = std::min(size_, quote + look_ahead / 2);
  for (std::size_t i = quote + 1; i < limit; ++i) {
    if (buffer_[i] == '\\') {
      ++i;
    } else if (buffer_[i] == '"') {
      const std::size_t after = past_space(i + 1);
      return after >= size_ || buffer_[after] == ':';
    }
  }
  return true;
}

// Valid JSON never says no here: only what cannot follow a string's last quote does.
bool JsonScanner::closes(std::size_t after_quote, Place place) const {
  std::size_t at = past_space(after_quote);
  if (at >= size_ || place == Place::top) return true;
  const char c = buffer_[at];
  if (place == Place::key) return c == ':';
  const auto ahead = [&](std::size_t from) {
    return std::string_view(buffer_.data() + from, size_ - from);
  };
  if (c == (place == Place::element ? ']' : '}')) {
    at = past_space(at + 1);
    return at >= size_ || std::string_view(",]}").find(buffer_[at]) != std::string_view::npos;
  }
  if (c != ',') return false;
  at = past_space(at + 1);
  if (at >= size_) return true;
  if (place == Place::element) return begins_value(ahead(at));
  return buffer_[at] == '}' || buffer_[at] == ',' || (buffer_[at] == '"' && is_key(at));
}

/// What follows can stand behind a string's last quote, and not within a string.
bool JsonScanner::surely_closes(std::size_t after_quote) const {
  std::size_t at = past_space(after_quote);
  if (at >= size_) return false;
  const bool brace = buffer_[at] == '}';
  if (!brace && buffer_[at] != ',') return false;
  at = past_space(at + 1);
  if (at >= size_) return brace && open_.size() == 1;
  if (!brace) return buffer_[at] == '"' && is_key(at) && past_space(at) < size_;
  if (buffer_[at] != ',') return false;
  at = past_space(at + 1);
  if (at >= size_ || buffer_[at] != '{') return false;
  at = past_space(at + 1);
  return at < size_ && buffer_[at] == '"' && is_key(at);
}

}  // namespace ac_advisor::trace
