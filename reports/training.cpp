// What became of another tool's training file, for people.
#include "ac_advisor/reports/training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/grid.hpp"

namespace ac_advisor::reports {

std::string table(const intake::Training& t, const Style& style) {
  Grid grid({"key", "value", "line", "option"});
  for (const intake::Mapping& m : t.mapping)
    grid.row({m.key, m.value.empty() ? "-" : m.value,
              m.line > 0 ? std::to_string(m.line) : "default",
              m.options.empty() ? "-" : m.options});
  std::string text =
      wrap(printable(fmt::format("{}: {} ({})", t.path, t.tool, t.version)) + "\n", style.width);
  text += grid.text(style.color, style.width);
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
