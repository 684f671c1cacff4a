#include "reports/changes.hpp"

#include <fmt/format.h>

#include "reports/command_line.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

/// "no slower", "12 % slower"
std::string cost(double slower) {
  if (slower < 0.005)
    return slower > -0.005 ? "none" : fmt::format("{:.0f} % faster", -100 * slower);
  return fmt::format("{:.0f} % slower", 100 * slower);
}

}  // namespace

std::string changes_text(const std::vector<advise::Change>& changes, bool fits,
                         const Style& style) {
  if (changes.empty())
    return wrap(fmt::format("No single change of checkpointing, loss, micro-batch, sharding, "
                            "optimizer or offloading, and no two or three of them together, was "
                            "found that {}.\n",
                            fits ? "holds as much less as the run lacked" : "makes it fit"),
                style.width);
  std::string text = bold(fits ? "What holds less, the cheapest first, each of them planned"
                               : "What makes it fit, the cheapest first, each of them planned",
                          style.color) +
                     "\n";
  Grid grid({"change", "peak GiB", "reserved", "cost"});
  for (const advise::Change& c : changes)
    grid.row({command_line(c.options), gib(c.profile.memory.peak_allocated),
              gib(c.profile.memory.peak_reserved), cost(c.slower)});
  text += grid.text(style.color, style.width);
  for (const advise::Change& c : changes)
    text += wrap(fmt::format("{}: {}\n", command_line(c.options), c.technique), style.width);
  return text;
}

}  // namespace ac_advisor::reports
