// GNU Bash manual, 3.1.2 Quoting and 3.5 Shell Expansions, of what training scripts use.
#include "shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "document.hpp"

namespace ac_advisor::intake {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_space(char c) { return is_blank(c) || c == '\n'; }
bool is_operator(char c) { return std::string_view(";&|<>()").find(c) != std::string_view::npos; }
bool begins_name(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view name_at(std::string_view text) {
  std::size_t size = 0;
  if (!text.empty() && begins_name(text[0]))
    while (size < text.size() && (begins_name(text[size]) || is_digit(text[size]))) ++size;
  return text.substr(0, size);
}

/// What a word's pieces come to.
class ShellWords::Builder {
 public:
  Builder(ShellWords& words, bool splits) : words_(words), splits_(splits) {}

  /// An empty word is one, too, where it is in quotes.
  void begin() {
    if (open_) return;
    constexpr std::size_t of_a_word = 64;
    words_.spend(of_a_word);
    all_.push_back({.line = words_.line_});
    open_ = true;
  }
  void add(std::string_view text) {
    begin();
    words_.spend(text.size());
    all_.back().text += text;
  }
  /// Of a variable: without quotes its blanks part words.
  void add(const ShellWord& value, bool quoted) {
    if (quoted || !splits_ || !value.unset.empty()) {  // what is not known has no blanks
      const bool begins = !open_;
      add(value.text);
      if (begins && value.lines) all_.back().line = value.line;
    } else {
      int line = value.line;
      for (const char c : value.text) {
        line += c == '\n' ? 1 : 0;
        const bool begins = !open_;
        if (is_space(c)) {
          open_ = false;
        } else {
          add(std::string_view(&c, 1));
          if (begins && value.lines) all_.back().line = line;
        }
      }
    }
    if (value.unset.empty()) return;
    begin();
    if (all_.back().unset.empty()) all_.back().unset = value.unset;
  }
  /// An array's: each is a word of its own, in the line where it stands.
  void items(const std::vector<ShellWord>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0 && splits_)
        open_ = false;
      else if (i > 0)
        add(" ");
      const bool begun = open_;
      add(items[i], true);
      if (!begun) all_.back().line = items[i].line;
    }
  }

  [[nodiscard]] std::vector<ShellWord> all() && { return std::move(all_); }
  [[nodiscard]] ShellWord one() && {
    return all_.empty() ? ShellWord{.line = words_.line_} : std::move(all_.front());
  }

 private:
  ShellWords& words_;
  std::vector<ShellWord> all_;
  bool splits_, open_ = false;
};

void ShellWords::fail(int line, const std::string& why) const {
  throw UserError(fmt::format("{}:{}: {}", path_, line, why));
}

void ShellWords::spend(std::size_t characters) {
  constexpr std::size_t most = std::size_t{16} << 20;
  spent_ += characters;
  if (spent_ > most)
    fail(line_, "its variables expand to more than a script has; write their values out");
}

void ShellWords::enter() {
  constexpr int most_depth = 32;
  if (++depth_ > most_depth)
    fail(line_, fmt::format("expansions nested more than {} deep", most_depth));
}

void ShellWords::skip(std::size_t count) {
  for (; count > 0 && !ended(); --count)
    if (text_[at_++] == '\n') ++line_;
}

void ShellWords::skip_blanks() {
  while (!ended()) {
    if (is_blank(peek()))
      skip();
    else if (rest().starts_with("\\\n"))
      skip(2);
    else if (rest().starts_with("\\\r\n"))
      skip(3);
    else
      return;
  }
}

void ShellWords::skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

void ShellWords::skip_parentheses() {
  const int begin = line_;
  std::string open;
  do {
    const char c = peek();
    const bool quoted = !open.empty() && open.back() == '"';
    if (ended()) fail(begin, "a parenthesis that nothing closes");
    if (c == '\\') {
      skip();
    } else if (c == '"') {
      if (quoted)
        open.pop_back();
      else
        open += c;
    } else if (c == '\'' && !quoted) {
      const std::size_t end = text_.find('\'', at_ + 1);
      if (end == std::string::npos) fail(line_, "a quote that nothing closes");
      skip(end - at_);
    } else if (c == '(' && (!quoted || text_[at_ - 1] == '$')) {
      open += c;
    } else if (c == ')' && !quoted) {
      open.pop_back();
    }
    skip();
  } while (!open.empty());
}

std::vector<ShellWord> ShellWords::word() {
  Builder b(*this, true);
  while (!ended() && !is_space(peek()) && !is_operator(peek())) piece(b, false);
  return std::move(b).all();
}

ShellWord ShellWords::value() {
  Builder b(*this, false);
  while (!ended() && !is_space(peek()) && !is_operator(peek())) piece(b, false);
  return std::move(b).one();
}

bool ShellWords::at_document_end(const std::string& last) const {
  std::string_view line = rest().substr(0, rest().find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line == last;
}

ShellWord ShellWords::document(const std::string& last) {
  const int begin = line_;
  Builder b(*this, false);
  bool line_begins = true;
  while (!ended() && !(line_begins && at_document_end(last))) {
    line_begins = peek() == '\n';
    if (rest().starts_with("\\\n")) {  // it is split at blanks, of which a newline is one
      b.add("\n");
      skip(2);
    } else {
      piece(b, true);
    }
  }
  skip_line();
  skip();
  ShellWord all = std::move(b).one();
  all.line = begin;
  all.lines = true;
  return all;
}

void ShellWords::piece(Builder& b, bool quoted) {
  const char c = peek();
  const int begin = line_;
  if (c == '\\') {
    const char next = peek(1);
    if (next == '\n' || rest().starts_with("\\\r\n")) return skip(next == '\n' ? 2 : 3);
    if (quoted && std::string_view("$`\"\\").find(next) == std::string_view::npos) b.add("\\");
    skip();
    if (!ended()) b.add(rest().substr(0, 1));
    return skip();
  }
  if (c == '\'' && !quoted) {
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) fail(begin, "a quote that nothing closes");
    b.add(std::string_view(text_).substr(at_ + 1, end - at_ - 1));
    return skip(end + 1 - at_);
  }
  if (c == '"' && !quoted) {
    skip();
    const std::size_t words_begin = at_;
    if (!rest().starts_with("$@") && !rest().starts_with("${")) b.begin();
    while (peek() != '"') {
      if (ended()) fail(begin, "a quote that nothing closes");
      piece(b, true);
    }
    if (at_ == words_begin) b.begin();
    return skip();
  }
  if (c == '$') return expansion(b, quoted);
  if (c == '`') {
    const std::size_t end = text_.find('`', at_ + 1);
    if (end == std::string::npos) fail(begin, "a quote that nothing closes");
    b.add({"`…`", "what a command prints is not known", line_}, true);
    return skip(end + 1 - at_);
  }
  b.add(rest().substr(0, 1));
  skip();
}

ShellWord ShellWords::value_of(std::string_view name) {
  const auto found = variables.find(name);
  const std::string shown = "$" + std::string(name);
  if (found == variables.end()) return {shown, plain(shown) + " is not set in the script", line_};
  if (found->second.items.empty()) return {.line = line_};
  spend(found->second.items.front().text.size());
  return found->second.items.front();
}

void ShellWords::expansion(Builder& b, bool quoted) {
  const char next = peek(1);
  const int begin = line_;
  if (next == '(' && peek(2) == '(') return b.add(arithmetic(), quoted);
  if (rest().starts_with("$(expr ")) return b.add(expr(), quoted);
  if (next == '(') {
    skip();
    skip_parentheses();
    return b.add({"$(…)", "what a command prints is not known", begin}, true);
  }
  if (next == '{') return braces(b, quoted);
  if (next == '@' || next == '*') {
    arguments = true;
    return skip(2);
  }
  if (!quoted && (next == '\'' || next == '"')) return skip();  // $'…' and $"…"
  if (const std::string name(name_at(rest().substr(1))); !name.empty()) {
    b.add(value_of(name), quoted);
    return skip(1 + name.size());
  }
  const bool special =
      is_digit(next) || std::string_view("#?$!-").find(next) != std::string_view::npos;
  if (!special || next == '\0') {
    b.add("$");
    return skip();
  }
  const std::string shown(rest().substr(0, 2));
  b.add({shown, shown + " is not known before the script runs", begin}, true);
  skip(2);
}

ShellWord ShellWords::until_brace(bool quoted) {
  const int begin = line_;
  Builder b(*this, false);
  while (peek() != '}') {
    if (ended()) fail(begin, "a brace that nothing closes");
    piece(b, quoted && peek() == '\'');  // in quotes a single one is a letter
  }
  skip();
  return std::move(b).one();
}

void ShellWords::array(Builder& b, const std::string& name, bool quoted) {
  const auto found = variables.find(name);
  if (found == variables.end()) {
    const std::string shown = "${" + name + "[@]}";
    return b.add({shown, plain(shown) + " is not set in the script", line_}, true);
  }
  if (found->second.changed > 0) uncertain.insert(name);
  if (quoted || found->second.items.empty()) return b.items(found->second.items);
  for (ShellWord item : found->second.items) {  // in the line where it stands
    spend(item.text.size());
    item.lines = true;
    b.add(item, false);
    b.add({" ", "", line_}, false);
  }
}

/// ${NAME}, ${NAME:-word} and its like, ${NAME[@]}; of others the value is not known.
void ShellWords::braces(Builder& b, bool quoted) {
  const int begin = line_;
  enter();
  skip(2);
  std::string name(name_at(rest()));
  if (name.empty()) {  // ${3:-default}: of what the script is called with
    const std::string_view digits =
        rest().substr(0, std::min(rest().find_first_not_of("0123456789"), rest().size()));
    const std::string_view behind = rest().substr(digits.size());
    if (behind.starts_with(":-") || behind.starts_with("-")) name = digits;
  }
  skip(name.size());
  const bool whole = rest().starts_with("[@]") || rest().starts_with("[*]");
  if (whole) skip(3);
  const bool colon = peek() == ':';
  const char what = peek(colon ? 1 : 0);
  const auto leave = [&] { --depth_; };
  if ((peek() == '@' || peek() == '*') && name.empty()) {
    arguments = true;
    static_cast<void>(until_brace(quoted));
    return leave();
  }
  if (what == '}' && !colon && !name.empty()) {
    skip();
    if (whole)
      array(b, name, quoted);
    else
      b.add(value_of(name), quoted);
    return leave();
  }
  if (name.empty() || std::string_view("-=+?").find(what) == std::string_view::npos ||
      what == '\0') {
    static_cast<void>(until_brace(quoted));
    const std::string shown = "${" + name + "…}";
    b.add({shown, plain(shown) + " is an expansion that is not followed", begin}, true);
    return leave();
  }
  skip(colon ? 2 : 1);
  const ShellWord otherwise = until_brace(quoted);
  leave();
  const auto found = variables.find(name);
  const bool empty = found != variables.end() &&
                     (found->second.items.empty() || (found->second.items.front().text.empty() &&
                                                      found->second.items.front().unset.empty()));
  const bool given = found != variables.end() && !(colon && empty);
  if (what == '+') {
    if (given && whole)
      array(b, name, true);  // ${NAME[@]+"${NAME[@]}"}
    else if (given)
      b.add(otherwise, quoted);
    return;
  }
  if (given && whole) return array(b, name, quoted);
  if (given || what == '?') return b.add(value_of(name), quoted);
  if (found == variables.end()) defaulted.insert(name);
  if (what == '=') variables[name] = {{otherwise}, 0};
  b.add(otherwise, quoted);
}

/// $(expr 16 / $N): integers, as $((…)) has them.
ShellWord ShellWords::expr() {
  const int begin = line_;
  enter();
  skip(std::string_view("$(expr ").size());
  Builder inner(*this, false);
  while (peek() != ')') {
    if (ended()) fail(begin, "a parenthesis that nothing closes");
    piece(inner, peek() != '\\');  // \* is a product
  }
  skip();
  --depth_;
  const ShellWord text = std::move(inner).one();
  const std::string shown = "$(expr " + text.text + ")";
  const auto result =
      text.unset.empty()
          ? shell_arithmetic(text.text, [](std::string_view) { return std::nullopt; })
          : std::nullopt;
  if (result) return {std::to_string(*result), "", begin};
  return {shown, text.unset.empty() ? plain(shown) + " is no integer that is known" : text.unset,
          begin};
}

ShellWord ShellWords::arithmetic() {
  const int begin = line_;
  enter();
  skip(3);
  Builder inner(*this, false);
  for (int open = 0; open > 0 || !rest().starts_with("))");) {
    if (ended()) fail(begin, "$(( that no )) closes");
    if (peek() == '(') ++open;
    if (peek() == ')' && --open < 0) fail(begin, "$(( that no )) closes");
    if (peek() == '"')
      skip();
    else
      piece(inner, true);
  }
  skip(2);
  --depth_;
  const ShellWord text = std::move(inner).one();
  std::string unset = text.unset;
  const auto named = [&](std::string_view name) -> std::optional<std::int64_t> {
    const ShellWord value = value_of(name);
    if (unset.empty()) unset = value.unset;
    if (!value.unset.empty()) return {};
    return shell_arithmetic(value.text, [](std::string_view) { return std::nullopt; });
  };
  const auto result = unset.empty() ? shell_arithmetic(text.text, named) : std::nullopt;
  if (result && unset.empty()) return {std::to_string(*result), "", begin};
  const std::string shown = "$((" + text.text + "))";
  return {shown, unset.empty() ? plain(shown) + " is no integer that is known" : unset, begin};
}

}  // namespace ac_advisor::intake
