// Overrides of Hydra 1.3, as a launch script hands them to its program (hydra/core/
// override_parser): key=value, +key=value, ++key=value, ~key; of a key that stands twice the last
// one counts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "script.hpp"

namespace ac_advisor::intake {
namespace {

bool is_key(std::string_view text) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const auto within = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || std::string_view(".@/:-").find(c) != text.npos;
  };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), within);
}

/// A word of the command line: its key, and where its value begins.
struct Override {
  std::string_view key;
  std::size_t value = std::string_view::npos;  ///< ~key has none
};

std::optional<Override> override_of(const std::string& word) {
  const std::size_t begin = std::min(word.find_first_not_of("+~"), word.size());
  if (begin > 2) return {};
  const std::size_t equals = word.find('=');
  const std::string_view key =
      std::string_view(word).substr(begin, std::min(equals, word.size()) - begin);
  if (!is_key(key)) return {};
  if (word[0] == '~') return Override{key};
  return equals == std::string::npos ? std::nullopt : std::optional(Override{key, equals + 1});
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

Node scalar(std::string_view text, int line) {
  text = trimmed(text);
  Node node{.kind = Node::Kind::scalar, .text = std::string(text), .line = line};
  const bool quoted = text.size() > 1 && (text[0] == '\'' || text[0] == '"') &&
                      text.find(text[0], 1) == text.size() - 1;
  if (quoted)
    node.text = text.substr(1, text.size() - 2);
  else if (text.empty() || text == "null" || text == "~")
    node.kind = Node::Kind::null;
  return node;
}

/// "[a, 'b, c']"; a list of lists or maps stays a text.
Node value_of(std::string_view text, int line) {
  text = trimmed(text);
  if (!text.starts_with('[') || !text.ends_with(']') || text.size() < 2) return scalar(text, line);
  Node list{.kind = Node::Kind::list, .line = line};
  const std::string_view items = text.substr(1, text.size() - 2);
  if (items.find_first_of("[]{}") != std::string_view::npos) return scalar(text, line);
  std::size_t begin = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= items.size(); ++i) {
    if (i < items.size() && quote != 0) {
      if (items[i] == quote) quote = 0;
    } else if (i < items.size() && (items[i] == '\'' || items[i] == '"')) {
      quote = items[i];
    } else if (i == items.size() || items[i] == ',') {
      const std::string_view item = trimmed(items.substr(begin, i - begin));
      if (!item.empty()) list.items.push_back(scalar(item, line));
      begin = i + 1;
    }
  }
  return list;
}

class Overrides {
 public:
  explicit Overrides(const std::string& path) : path_(path) {}

  Node read(const std::vector<ShellWord>& command) {
    for (std::size_t i = 0; i < command.size(); ++i) {
      const ShellWord& word = command[i];
      if (const auto given = override_of(word.text))
        add(*given, word);
      else
        i += option(command, i);
    }
    return std::move(said_).map();
  }

 private:
  void add(const Override& given, const ShellWord& word) {
    Node value{.line = word.line};
    if (!word.unset.empty())
      value = {.kind = Node::Kind::scalar,
               .text = word.text.substr(std::min(given.value, word.text.size())),
               .line = word.line,
               .unset = word.unset};
    else if (given.value != std::string_view::npos)
      value = value_of(std::string_view(word.text).substr(given.value), word.line);
    said_.set(std::string(given.key), std::move(value));
  }

  /// --config-name NAME, --config-name=NAME and its like choose what the overrides are of: kept by
  /// their long names. How many words more it took.
  std::size_t option(const std::vector<ShellWord>& command, std::size_t i) {
    constexpr std::pair<std::string_view, std::string_view> options[] = {
        {"--config-name", "--config-name"}, {"-cn", "--config-name"},
        {"--config-path", "--config-path"}, {"-cp", "--config-path"},
        {"--config-dir", "--config-dir"},   {"-cd", "--config-dir"}};
    const std::string& text = command[i].text;
    for (const auto& [given, name] : options) {
      const bool within =
          text.size() > given.size() && text.starts_with(given) && text[given.size()] == '=';
      if (!within && (text != given || i + 1 == command.size())) continue;
      const ShellWord& word = within ? command[i] : command[i + 1];
      Node value = scalar(std::string_view(word.text).substr(within ? given.size() + 1 : 0),
                          command[i].line);
      value.unset = word.unset;
      said_.set(std::string(name), std::move(value));
      return within ? 0 : 1;
    }
    return 0;
  }

  const std::string& path_;
  Said said_{path_, "overrides"};
};

}  // namespace

bool has_overrides(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const auto given = override_of(word.text);
    return given && given->key.find('.') != std::string_view::npos;
  });
}

Node read_overrides(const ShellCommand& command, const std::string& path) {
  return Overrides(path).read(command.words);
}

}  // namespace ac_advisor::intake
