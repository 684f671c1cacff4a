#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/byte_source.hpp"

namespace ac_advisor::trace {

/// JSON, token by token, as profilers write it: what is valid is read as it stands; control bytes,
/// bad UTF-8, backslashes and quotes that nobody escaped, NaN, Infinity, a byte order mark and
/// stray commas are read as they were meant (pytorch#98432, #136180, #146900). Memory does not grow
/// with the file.
class JsonScanner {
 public:
  enum class Token : std::uint8_t {
    object,
    object_end,
    array,
    array_end,
    key,
    text,
    number,
    word,  ///< true, false, null, NaN, Infinity, or nothing where a value belongs
    end
  };

  /// `source` must outlive it.
  JsonScanner(files::ByteSource& source, std::string origin);

  /// Throws UserError naming the byte: the text ends within a value, or is none of the above.
  Token next();
  /// Of a key, a text, a number or a word; a longer text is cut to `max_text` bytes. Valid until
  /// the next call. May not be UTF-8.
  [[nodiscard]] std::string_view text() const { return text_; }
  /// After a key, or within an array: passes over one value, whatever it is.
  void skip_value();
  /// After `object` or `array`: passes over the rest of it.
  void leave();
  /// Places that were not JSON.
  [[nodiscard]] std::int64_t repairs() const { return repairs_; }

  static constexpr std::size_t max_text = 4096;
  static constexpr std::size_t max_depth = 256;

 private:
  enum class Place : std::uint8_t { top, key, member, element };

  bool need(std::size_t bytes);
  void skip_space();
  [[nodiscard]] std::size_t past_space(std::size_t at) const;
  [[nodiscard]] Place place() const;
  Token open(char bracket);
  Token close(char bracket);
  Token bare_word(char first);
  void scan_string(Place place);
  void scan_rest_of_string(Place place);
  void escape(Place place, bool& ended);
  [[nodiscard]] bool closes(std::size_t after_quote, Place place) const;
  [[nodiscard]] bool is_key(std::size_t quote) const;
  [[nodiscard]] bool surely_closes(std::size_t after_quote) const;
  void put(std::string_view bytes);
  void put_code_point(std::uint32_t code);
  [[noreturn]] void refuse(const char* expected) const;
  [[noreturn]] void cut_off() const;
  [[nodiscard]] std::size_t position() const { return before_ + at_; }

  files::ByteSource& source_;
  std::string origin_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;  ///< in the buffer: what is next, what is read
  std::size_t before_ = 0;         ///< bytes of the file before the buffer
  bool at_end_ = false;            ///< of the file
  std::string open_;               ///< brackets
  bool value_next_ = false;        ///< in an object: a key was read
  bool started_ = false;
  std::string_view text_;
  std::string scratch_;
  std::int64_t repairs_ = 0;
};

}  // namespace ac_advisor::trace
