#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shell.hpp"

namespace ac_advisor::intake {

/// The name of a variable that `text` begins with; empty: with none.
[[nodiscard]] std::string_view name_at(std::string_view text);

/// A variable as far as the script says it; one item unless it is an array.
struct ShellVariable {
  std::vector<ShellWord> items;
  int changed = 0;  ///< the line of a change under a condition, which is not followed
};

/// A script's text, read word by word; the words are expanded by the variables so far.
class ShellWords {
 public:
  ShellWords(const std::string& text, const std::string& path) : text_(text), path_(path) {}

  [[nodiscard]] bool ended() const { return at_ >= text_.size(); }
  /// 0 behind the end.
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return ahead < text_.size() - at_ ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] std::string_view rest() const { return std::string_view(text_).substr(at_); }
  [[nodiscard]] int line() const { return line_; }
  /// The next `count` characters, lines counted.
  void skip(std::size_t count = 1);
  /// Blanks and lines that a backslash continues.
  void skip_blanks();
  /// To the end of the line, its newline left.
  void skip_line();
  /// What begins with an opening parenthesis, to the one that closes it.
  void skip_parentheses();

  /// The words that come of one: an array's items are several, "$@" is none. Until a blank or an
  /// operator.
  [[nodiscard]] std::vector<ShellWord> word();
  /// An assignment's value, which is not split.
  [[nodiscard]] ShellWord value();
  /// The text up to the line `last`, which is skipped, as << has it; expanded.
  [[nodiscard]] ShellWord document(const std::string& last);
  /// Whether this line is `last`.
  [[nodiscard]] bool at_document_end(const std::string& last) const;

  std::map<std::string, ShellVariable, std::less<>> variables;
  std::set<std::string, std::less<>> defaulted;  ///< those whose ${NAME:-…} was taken
  std::set<std::string, std::less<>> uncertain;  ///< arrays that were used after such a change
  bool arguments = false;                        ///< "$@" stands somewhere
  [[noreturn]] void fail(int line, const std::string& why) const;
  /// Counts what is copied: few lines can double a text often. Throws UserError.
  void spend(std::size_t characters);

 private:
  class Builder;

  void piece(Builder& b, bool quoted);
  void expansion(Builder& b, bool quoted);
  void braces(Builder& b, bool quoted);
  [[nodiscard]] ShellWord arithmetic();
  [[nodiscard]] ShellWord expr();
  [[nodiscard]] ShellWord until_brace(bool quoted);
  [[nodiscard]] ShellWord value_of(std::string_view name);
  void array(Builder& b, const std::string& name, bool quoted);
  void enter();

  const std::string& text_;
  const std::string& path_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::size_t spent_ = 0;
};

}  // namespace ac_advisor::intake
