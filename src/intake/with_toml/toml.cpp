// toml++'s tree as Node, within bounds. The library is its headers.
#include <fmt/format.h>
// toml++ 3.3 asserts what a file may lack ("[,key]"), and then refuses it with an error of its own.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "intake/document.hpp"

namespace ac_advisor::intake {
namespace {

constexpr int most_depth = 32;

/// As Python shows it: 1.0, not 1.
std::string decimal(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

Node node_of(const toml::node& from, const std::string& path, int depth) {
  Node to{.kind = Node::Kind::scalar, .line = static_cast<int>(from.source().begin.line)};
  if (depth > most_depth)
    throw UserError(fmt::format("{}:{}: nested more than {} deep", path, to.line, most_depth));
  if (const toml::table* table = from.as_table()) {
    to.kind = Node::Kind::map;
    for (const auto& [key, value] : *table)
      to.members.push_back({std::string(key.str()), node_of(value, path, depth + 1)});
  } else if (const toml::array* array = from.as_array()) {
    to.kind = Node::Kind::list;
    for (const toml::node& item : *array) to.items.push_back(node_of(item, path, depth + 1));
  } else if (const auto* text = from.as_string()) {
    to.text = text->get();
  } else if (const auto* truth = from.as_boolean()) {
    to.text = truth->get() ? "true" : "false";
  } else if (const auto* whole = from.as_integer()) {
    to.text = std::to_string(whole->get());
  } else if (const auto* real = from.as_floating_point()) {
    to.text = decimal(real->get());
  } else {  // a date or a time
    std::ostringstream shown;
    from.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>) shown << value.get();
    });
    to.text = shown.str();
  }
  return to;
}

/// Where the string that begins at `i` ends: behind its delimiter, or at the end of its line.
std::size_t end_of_string(const std::string& text, std::size_t i) {
  const char quote = text[i];
  const std::string three(3, quote);
  const bool lines = text.compare(i, 3, three) == 0;
  for (i += lines ? 3 : 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"')
      ++i;
    else if (lines ? text.compare(i, 3, three) == 0 : text[i] == quote)
      return i + (lines ? 3 : 1);
    else if (!lines && text[i] == '\n')
      return i;
  }
  return text.size();
}

/// TOML 1.0 has characters beyond ASCII in strings and comments alone. toml++ 3.3 reaches what it
/// says is unreachable at others (is_non_ascii_horizontal_whitespace).
void expect_ascii_outside_strings(const std::string& text, const std::string& path) {
  for (std::size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
    } else if (static_cast<unsigned char>(c) > 127) {
      const auto line =
          1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n');
      throw UserError(fmt::format(
          "{}:{}: not TOML: a character beyond ASCII outside of strings and comments", path, line));
    } else {
      ++i;
    }
  }
}

}  // namespace

Node parse_toml(const std::string& text, const std::string& path) {
  expect_ascii_outside_strings(text, path);
  try {
    return node_of(toml::parse(text, path), path, 0);
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{}:{}: not TOML: {}", path, error.source().begin.line,
                                plain(std::string(error.description()))));
  }
}

}  // namespace ac_advisor::intake
