// Where something stands in a JSON file, for the annotations of a pull request. Plain search: a
// parser's positions are not kept, and a line that is off by some is no wrong verdict.
#include "line_of.hpp"

#include <algorithm>

namespace ac_advisor::gate {
namespace {

/// After spaces and one colon; npos where something else stands.
std::size_t after_colon(const std::string& text, std::size_t at) {
  at = text.find_first_not_of(" \t\r\n", at);
  if (at == std::string::npos || text[at] != ':') return std::string::npos;
  return text.find_first_not_of(" \t\r\n", at + 1);
}

}  // namespace

std::map<std::string, int> lines_of_names(const std::string& text) {
  std::map<std::string, int> lines;
  const std::string key = "\"name\"";
  int line = 1;
  std::size_t counted = 0;
  for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
    at += key.size();
    const std::size_t value = after_colon(text, at);
    if (value == std::string::npos || text[value] != '"') continue;
    const std::size_t end = text.find('"', value + 1);
    if (end == std::string::npos) break;
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                        text.begin() + static_cast<std::ptrdiff_t>(value), '\n'));
    counted = value;
    lines.emplace(text.substr(value + 1, end - value - 1), line);
    at = end;
  }
  return lines;
}

int line_of_key(const std::string& text, const std::string& key, int from,
                const std::string& until) {
  std::size_t begin = 0;
  for (int line = 1; line < from && begin != std::string::npos; ++line) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos) return 0;
  const auto find_key = [&](const std::string& name, std::size_t at) {
    const std::string quoted = '"' + name + '"';
    while ((at = text.find(quoted, at)) != std::string::npos &&
           after_colon(text, at + quoted.size()) == std::string::npos)
      at += quoted.size();
    return at;
  };
  const std::size_t found = find_key(key, begin);
  if (found == std::string::npos) return 0;
  if (!until.empty()) {
    // The key that bounds the search may stand on the first line itself.
    const std::size_t rest = text.find('\n', begin);
    if (rest != std::string::npos && find_key(until, rest) < found) return 0;
  }
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found), '\n'));
}

}  // namespace ac_advisor::gate
