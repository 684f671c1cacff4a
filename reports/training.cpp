// What became of another tool's training file, for people.
#include "ac_advisor/reports/training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/grid.hpp"

namespace ac_advisor::reports {

namespace {

std::string where(const intake::Mapping& m) {
  return m.line > 0 ? std::to_string(m.line) : "default";
}

/// A table where keys and options fit uncut beside some of the values, else a line a key: which key
/// became what is the point.
std::string mapping(const intake::Training& t, const Style& style) {
  std::size_t beside = std::string_view("default").size() + 3 * 2, keys = 3, options = 6;
  for (const intake::Mapping& m : t.mapping) {
    keys = std::max(keys, columns(m.key));
    options = std::max(options, columns(m.options));
  }
  beside += keys + options;
  constexpr std::size_t least = 8;
  const bool fits = beside + least <= style.width;
  Grid grid({"key", "value", "line", "option"});
  std::string lines;
  for (const intake::Mapping& m : t.mapping) {
    const std::string value = m.value.empty() ? "-" : printable(m.value);
    if (fits)
      grid.row(
          {m.key, cut(value, style.width - beside), where(m), m.options.empty() ? "-" : m.options});
    else
      lines +=
          wrap(fmt::format("{}: {} ({}{}){}\n", printable(m.key), value, m.line > 0 ? "line " : "",
                           where(m), m.options.empty() ? "" : " -> " + printable(m.options)),
               style.width);
  }
  return fits ? grid.text(style.color, style.width) : lines;
}

}  // namespace

std::string table(const intake::Training& t, const Style& style) {
  std::string text =
      wrap(printable(fmt::format("{}: {} ({})", t.path, t.tool, t.version)) + "\n", style.width);
  text += mapping(t, style);
  const auto list = [&](const std::string& head, const std::vector<std::string>& words) {
    if (!words.empty())
      text +=
          wrap(printable(fmt::format("{}: {}", head, fmt::join(words, ", "))) + "\n", style.width);
  };
  list("no effect on memory", t.no_effect);
  list("not a key of " + t.tool, t.unknown);
  return text;
}

}  // namespace ac_advisor::reports
