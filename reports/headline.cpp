#include "reports/headline.hpp"

#include <fmt/format.h>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

/// Bytes as GiB with one decimal: the exact ones stand below.
std::string about(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(1LL << 30));
}

std::string devices(const profile::Profile& p) {
  const std::int64_t world = p.config.layout.world;
  return (world > 1 ? fmt::format("each of {} ", world) : "one ") + printable(p.device_name);
}

std::string needed(const profile::Fit& f) {
  return fmt::format("{} of {} GiB", about(f.required), about(f.usable));
}

std::string fits(const profile::Profile& p) {
  const profile::Fit& f = p.fit;
  if (!f.pressure) return fmt::format("Fits: {} on {}", needed(f), devices(p));
  if (f.pressure->retries == 0)
    return "Fits " + devices(p) + ", by releasing cached blocks in its first steps";
  return fmt::format("Fits {}, by releasing cached blocks {} time{} per step", devices(p),
                     f.pressure->retries, f.pressure->retries > 1 ? "s" : "");
}

std::string does_not_fit(const profile::Profile& p) {
  const profile::Fit& f = p.fit;
  if (!f.pressure) return fmt::format("Does not fit {}: needs {}", devices(p), needed(f));
  if (f.pressure->excess > 0)
    return fmt::format("Does not fit {}: {} GiB too much", devices(p), about(f.pressure->excess));
  return fmt::format("Does not fit {}, by fragmentation: no free block is large enough",
                     devices(p));
}

}  // namespace

std::string marked(bool good, const std::string& text, const Style& style) {
  const std::string line = wrap((good ? "✓ " : "✗ ") + text, style.width);
  if (!style.color) return line + "\n";
  return fmt::format("\033[1;{}m{}\033[0m\n", good ? 32 : 31, line);
}

std::string headline(const profile::Profile& p, const Style& style) {
  if (p.absent.contains("fit")) return "";
  return marked(p.fit.fits, p.fit.fits ? fits(p) : does_not_fit(p), style);
}

std::string headline(const advise::Sweep& sweep, const Style& style) {
  if (sweep.rows.empty()) return "";
  if (sweep.recommended >= sweep.rows.size())
    return marked(false,
                  fmt::format("Nothing that {} has fits {}", sweep.base.runtime.framework,
                              devices(sweep.rows.front().profile)),
                  style);
  const advise::Row& best = sweep.rows[sweep.recommended];
  const profile::Profile& p = best.profile;
  return marked(
      true,
      fmt::format("{} fits: {} on {}, {}{} {} tokens/s", printable(best.label), needed(p.fit),
                  devices(p), p.time.basis == profile::TimeBasis::estimate ? "an " : "a ",
                  time_word(p.time.basis),
                  grouped(static_cast<std::int64_t>(p.time.tokens_per_second))),
      style);
}

}  // namespace ac_advisor::reports
