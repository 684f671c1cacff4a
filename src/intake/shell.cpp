// GNU Bash manual, 3.2 Shell Commands: which words belong to one, and what assignments leave.
#include "shell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "document.hpp"
#include "shell_words.hpp"

namespace ac_advisor::intake {
namespace {

constexpr std::string_view opening[] = {"if", "while", "until", "for", "case", "select"};
constexpr std::string_view closing[] = {"fi", "done", "esac"};
constexpr std::string_view between[] = {"then", "else", "elif", "do", "!", "{", "}", "time"};
constexpr std::string_view declaring[] = {"export", "declare", "local", "readonly", "typeset"};

template <std::size_t N>
bool is_one_of(const std::string_view (&words)[N], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::optional<std::int64_t> whole(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

/// Of [[ A == B ]] and its like (Bash manual, 6.4): nothing where it is of files, of patterns or of
/// what is not known. `words` may be a part: [[ A == B && C == D ]] comes as two.
std::optional<bool> tested(std::span<const ShellWord> words) {
  if (words.empty()) return {};
  const std::string &first = words.front().text, &last = words.back().text;
  const bool opens = first == "[[" || first == "[" || first == "test",
             closes = last == "]]" || last == "]";
  if (!opens && !closes) return {};
  if (opens) words = words.subspan(1);
  if (closes && !words.empty()) words = words.first(words.size() - 1);
  if (std::ranges::any_of(words, [](const ShellWord& word) { return !word.unset.empty(); }))
    return {};
  if (words.size() == 2 && (words[0].text == "-z" || words[0].text == "-n"))
    return words[1].text.empty() == (words[0].text == "-z");
  if (words.size() != 3) return {};
  const std::string &left = words[0].text, &is = words[1].text, &right = words[2].text;
  if (is == "=" || is == "==" || is == "!=") {
    if (right.find_first_of("*?[") != std::string::npos) return {};
    return (left == right) == (is != "!=");
  }
  const std::optional<std::int64_t> a = whole(left), b = whole(right);
  if (!a || !b) return {};
  if (is == "-eq") return *a == *b;
  if (is == "-ne") return *a != *b;
  if (is == "-gt") return *a > *b;
  if (is == "-ge") return *a >= *b;
  if (is == "-lt") return *a < *b;
  if (is == "-le") return *a <= *b;
  return {};
}

/// Where an `if` is: before its `then`, in a branch that runs, in one that does not, behind the one
/// that ran. Of loops, and where the condition is not known: `unknown`.
enum class Branch : std::uint8_t { asked, unknown, taken, passed, over };

class Script {
 public:
  Script(const std::string& text, const std::string& path) : in_(text, path) {}

  ShellScript read() {
    while (true) {
      in_.skip_blanks();
      if (in_.ended()) break;
      if (!between_words()) take_word();
    }
    end_command();
    tell();
    return std::move(out_);
  }

 private:
  /// Whether what stands here ends a command, or is no word.
  bool between_words() {
    const char c = in_.peek(), next = in_.peek(1);
    if (c == '#') {
      in_.skip_line();
    } else if (c == '\n') {
      const std::string read = read_into();
      end_command();
      conditional_ = conditional_ && awaited_;
      in_.skip();
      take_documents(read);
    } else if (c == '&' && next == '>') {
      redirect();
    } else if (c == '&' || c == '|') {
      end_command();
      connectors_ += next == c ? c : ';';
      conditional_ = awaited_ = next == c;
      in_.skip(next == c ? 2 : 1);
    } else if (c == ';' || c == ')') {
      end_command();
      connectors_ += c == ';' ? "" : ";";
      conditional_ = false;
      in_.skip();
    } else if (c == '(') {
      end_command();
      if (next == '(')
        in_.skip_parentheses();
      else
        in_.skip();
    } else if (c == '<' || c == '>') {
      redirect();
    } else {
      return false;
    }
    return true;
  }

  /// The operator; what it names is no argument.
  void redirect() {
    const bool document = in_.rest().starts_with("<<") && !in_.rest().starts_with("<<<");
    if (in_.peek(1) == '(') {  // a process in place of a file
      in_.skip();
      return in_.skip_parentheses();
    }
    while (std::string_view("<>&|").find(in_.peek()) != std::string_view::npos && !in_.ended())
      in_.skip();
    if (document && in_.peek() == '-') in_.skip();
    in_.skip_blanks();
    const bool quoted = in_.peek() == '\'' || in_.peek() == '"';
    const std::vector<ShellWord> target = in_.word();
    if (document && !target.empty()) documents_.push_back({target.front().text, quoted});
  }

  /// The variable that `read -d '' NAME <<END` fills with the document; empty: this is none.
  [[nodiscard]] std::string read_into() const {
    if (documents_.empty() || command_.size() < 3 || command_.front().text != "read") return {};
    for (std::size_t i = 1; i + 2 < command_.size(); ++i)
      if (command_[i].text.starts_with('-') && command_[i].text.ends_with('d') &&
          command_[i + 1].text.empty())
        return std::string(name_at(command_.back().text));
    return {};
  }

  /// The lines of << documents, which begin after the command's line. The first is `read`'s.
  void take_documents(std::string name) {
    for (const auto& [last, quoted] : std::exchange(documents_, {})) {
      if (!name.empty() && !quoted)
        set(std::exchange(name, {}), in_.document(last), false);
      else
        skip_document(last);
    }
  }

  void skip_document(const std::string& last) {
    while (!in_.ended() && !in_.at_document_end(last)) {
      in_.skip_line();
      in_.skip();
    }
    in_.skip_line();
    in_.skip();
  }

  [[nodiscard]] bool under_condition() const { return unknown_ > 0 || conditional_; }
  /// In a branch that does not run: nothing of it counts.
  [[nodiscard]] bool skips() const { return skipped_ > 0; }
  [[nodiscard]] bool asks() const {
    return !branches_.empty() && branches_.back() == Branch::asked;
  }

  void count(Branch branch, int by) {
    if (branch == Branch::unknown) unknown_ += by;
    if (branch == Branch::passed || branch == Branch::over) skipped_ += by;
  }
  void enter(Branch branch) {
    branches_.push_back(branch);
    count(branch, 1);
  }
  void leave() {
    if (branches_.empty()) return;
    count(branches_.back(), -1);
    branches_.pop_back();
  }
  void turn(Branch to) {
    leave();
    enter(to);
  }
  void ask() {
    enter(Branch::asked);
    tests_.clear();
    connectors_.clear();
  }

  /// What the tests since `if` come to; each after its connector.
  [[nodiscard]] Branch decided() const {
    const bool all = connectors_.find_first_not_of('&') == std::string::npos,
               any = connectors_.find_first_not_of('|') == std::string::npos;
    if (tests_.empty() || tests_.size() != connectors_.size() + 1 || (!all && !any))
      return Branch::unknown;
    bool open = false;
    for (const std::optional<bool>& test : tests_) {
      if (!test) open = true;
      if (test && *test != all) return *test ? Branch::taken : Branch::passed;
    }
    return open ? Branch::unknown : all ? Branch::taken : Branch::passed;
  }

  void branch(std::string_view word) {
    const Branch now = branches_.empty() ? Branch::unknown : branches_.back();
    if (word == "if") {
      ask();
    } else if (is_one_of(opening, word)) {
      enter(Branch::unknown);
    } else if (is_one_of(closing, word)) {
      leave();
    } else if (word == "!" && asks()) {
      tests_.emplace_back();
    } else if (word == "then" && now == Branch::asked) {
      turn(decided());
    } else if (word == "elif" && now == Branch::passed) {
      leave();
      ask();
    } else if (word == "else" && now == Branch::passed) {
      turn(Branch::taken);
    } else if ((word == "elif" || word == "else") && now == Branch::taken) {
      turn(Branch::over);
    }
  }

  /// The letters up to a blank or an operator, as they stand.
  [[nodiscard]] std::string_view letters() const {
    const std::string_view rest = in_.rest();
    return rest.substr(0, rest.find_first_of(" \t\r\n;&|<>()"));
  }

  void take_word() {
    const bool first = command_.empty();
    awaited_ = false;
    if (const std::string_view word = letters();  // 2>&1: the file's number, no argument
        !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos &&
        (in_.peek(word.size()) == '<' || in_.peek(word.size()) == '>'))
      return in_.skip(word.size());
    if (first && keyword()) return;
    if ((first || is_one_of(declaring, command_.front().text)) && assignment()) return;
    for (ShellWord& word : in_.word()) command_.push_back(std::move(word));
  }

  bool keyword() {
    const std::string_view word = letters();
    if (!is_one_of(opening, word) && !is_one_of(closing, word) && !is_one_of(between, word))
      return false;
    branch(word);
    const bool names = word == "for" || word == "select";
    in_.skip(word.size());
    in_.skip_blanks();
    if (names) set(std::string(letters()), {}, false);
    return true;
  }

  bool assignment() {
    const std::string name(name_at(in_.rest()));
    const std::string_view behind = in_.rest().substr(name.size());
    const bool adds = behind.starts_with("+=");
    if (name.empty() || !(adds || behind.starts_with('='))) return false;
    in_.skip(name.size() + (adds ? 2 : 1));
    if (command_.empty()) remember(name);
    if (in_.peek() == '(') {
      set_array(name, items(), adds);
      return true;
    }
    const ShellWord value = in_.value();
    set(name, value, adds);
    if (!command_.empty() && command_.front().text == "export") exported(name);
    return true;
  }

  void remember(const std::string& name) {
    const auto before = in_.variables.find(name);
    own_.emplace_back(name, std::nullopt);
    if (before == in_.variables.end()) return;
    constexpr std::size_t of_a_word = 64;
    for (const ShellWord& item : before->second.items) in_.spend(item.text.size() + of_a_word);
    own_.back().second = before->second;
  }

  void exported(const std::string& name) {
    if (skips()) return;
    const auto found = in_.variables.find(name);
    if (found == in_.variables.end() || found->second.items.empty()) return;
    in_.spend(name.size() + found->second.items.front().text.size());
    out_.exports.push_back({name, found->second.items.front()});
  }

  /// Of NAME=value before a command: it is the command's alone, and afterwards what it was.
  [[nodiscard]] std::vector<ShellAssignment> take_environment() {
    std::vector<ShellAssignment> all;
    for (const auto& [name, before] : own_)
      if (const ShellVariable& now = in_.variables[name]; !now.items.empty())
        all.push_back({name, now.items.front()});
    for (auto own = own_.rbegin(); own != own_.rend(); ++own) {
      if (own->second)
        in_.variables[own->first] = std::move(*own->second);
      else
        in_.variables.erase(own->first);
    }
    own_.clear();
    return all;
  }

  std::vector<ShellWord> items() {
    const int begin = in_.line();
    std::vector<ShellWord> all;
    for (in_.skip();; in_.skip_blanks()) {
      in_.skip_blanks();
      if (in_.ended()) in_.fail(begin, "an array that nothing closes");
      if (in_.peek() == ')') break;
      if (in_.peek() == '#') {
        in_.skip_line();
      } else if (std::string_view("\n;&|<>(").find(in_.peek()) != std::string_view::npos) {
        in_.skip();
      } else {
        for (ShellWord& word : in_.word()) all.push_back(std::move(word));
      }
    }
    in_.skip();
    return all;
  }

  /// Under a condition it is what it was only where it was that before.
  void set(const std::string& name, ShellWord value, bool adds) {
    if (skips()) return;
    const auto before = in_.variables.find(name);
    const bool known = before != in_.variables.end() && !before->second.items.empty();
    if (adds && known) {
      value.text = before->second.items.front().text + value.text;
      in_.spend(value.text.size());
      if (value.unset.empty()) value.unset = before->second.items.front().unset;
    }
    const bool same = known && value.unset.empty() && before->second.items.size() == 1 &&
                      before->second.items.front().unset.empty() &&
                      before->second.items.front().text == value.text;
    if (same) return;
    if (under_condition()) {
      value.text = "$" + name;
      value.unset = fmt::format("${} is set under a condition in line {}, which is not followed",
                                plain(name), in_.line());
    }
    in_.variables[name] = {{std::move(value)}, 0};
  }

  void set_array(const std::string& name, std::vector<ShellWord> items, bool adds) {
    if (skips()) return;
    ShellVariable& variable = in_.variables[name];
    if (under_condition()) {
      if (!items.empty() || !adds) variable.changed = in_.line();
      return;
    }
    if (!adds) return static_cast<void>(variable = {std::move(items), 0});
    for (ShellWord& item : items) variable.items.push_back(std::move(item));
  }

  void end_command() {
    if (command_.empty()) return own_.clear();
    std::vector<ShellAssignment> environment = take_environment();
    if (skips()) return command_.clear();
    if (asks()) tests_.push_back(tested(command_));
    const std::string& name = command_.front().text;
    if (name == "export")
      for (std::size_t i = 1; i < command_.size(); ++i) exported(command_[i].text);
    if (name == "unset" || name == "read")
      for (std::size_t i = 1; i < command_.size(); ++i) {
        if (name == "read" || under_condition())
          set(command_[i].text, {command_[i].text, "", command_[i].line}, false);
        else
          in_.variables.erase(command_[i].text);
      }
    if ((name == "source" || name == ".") && command_.size() > 1)
      out_.notes.push_back(fmt::format("line {}: what {} sets is not read", command_.front().line,
                                       plain(command_[1].text)));
    out_.commands.push_back(
        {std::exchange(command_, {}), std::move(environment), out_.exports.size()});
  }

  void tell() {
    if (in_.arguments)
      out_.notes.emplace_back("$@: what the script is called with is not known, and left out");
    for (const std::string& name : in_.uncertain)
      out_.notes.push_back(fmt::format("line {}: what ${} gets under a condition is left out",
                                       in_.variables[name].changed, plain(name)));
    if (in_.defaulted.empty()) return;
    const std::size_t others = in_.defaulted.size() - 1;
    out_.notes.push_back(fmt::format(
        "${}{}: the script's own default is planned, whatever the shell has set",
        plain(*in_.defaulted.begin()), others > 0 ? fmt::format(" and {} more", others) : ""));
  }

  ShellWords in_;
  ShellScript out_;
  std::vector<ShellWord> command_;
  std::vector<std::pair<std::string, bool>> documents_;  ///< last lines of those to come; quoted
  /// Assignments that the command begins with, and what the names were before.
  std::vector<std::pair<std::string, std::optional<ShellVariable>>> own_;
  std::vector<Branch> branches_;
  int unknown_ = 0, skipped_ = 0;           ///< of them
  std::vector<std::optional<bool>> tests_;  ///< of the `if` that is asked
  std::string connectors_;                  ///< & or | between them, ; for others
  bool conditional_ = false;                ///< behind && or ||
  bool awaited_ = false;                    ///< nothing has come behind it yet
};

}  // namespace

const ShellWord* ShellScript::environment(const ShellCommand& command,
                                          std::string_view name) const {
  const auto last = [&](const std::vector<ShellAssignment>& all, std::size_t count) {
    const ShellWord* found = nullptr;
    for (std::size_t i = 0; i < count; ++i)
      if (all[i].name == name) found = &all[i].value;
    return found;
  };
  const ShellWord* own = last(command.environment, command.environment.size());
  return own != nullptr ? own : last(exports, command.exported);
}

ShellScript read_script(const std::string& text, const std::string& path) {
  return Script(text, path).read();
}

}  // namespace ac_advisor::intake
