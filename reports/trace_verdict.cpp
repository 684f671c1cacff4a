// Of traces: what to know first, in a sentence or two.
#include <fmt/format.h>

#include <algorithm>

#include "reports/trace_grids.hpp"
#include "reports/verdict.hpp"

namespace ac_advisor::reports {

std::string verdict(const trace::Summary& s) {
  const trace::Figures& f = s.shown();
  if (!s.on_gpu)
    return fmt::format(
        "No kernel ran on a GPU in this trace: {:.0f} dispatches of the CPU{} are all that it "
        "tells.",
        f.dispatches, s.step ? " a step" : "");
  std::string text =
      fmt::format("{} takes {}: the device works for {} of it and idles for {} ({}).",
                  s.step ? "A step" : "All of it", duration(f.seconds()), duration(f.busy_seconds),
                  duration(f.idle_seconds), share(f.idle_seconds, f.seconds()));
  const std::pair<double, const char*> causes[] = {
      {f.idle_host_seconds, "the host does not launch in time"},
      {f.idle_other_seconds, "queued work is held by another stream or rank"},
      {f.idle_kernel_seconds, "queued kernels take their time to begin"}};
  const auto most = std::max_element(std::begin(causes), std::end(causes));
  if (most->first > 0.5 * f.idle_seconds && f.idle_seconds > 0.05 * f.seconds())
    text += fmt::format(" Most of the idling is because {}.", most->second);
  if (s.recomputation && s.recomputation->seconds > 0)
    text += fmt::format(" Recomputation is {} of the kernel time.",
                        share(s.recomputation->seconds, s.whole.kernel_seconds));
  return text;
}

std::string verdict(const RankSummaries& ranks) {
  std::string text;
  for (const std::string& line : sentences(ranks.together))
    if (!line.starts_with("note: ")) {
      std::string sentence = line + ".";
      sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(line.front())));
      text += (text.empty() ? "" : " ") + sentence;
    }
  return text;
}

std::string verdict(const trace::Diagnosis& d) {
  std::string text =
      fmt::format("B's step takes {}, A's {}: {}{} ({}).", duration(d.b.seconds),
                  duration(d.a.seconds), d.overhead_seconds < 0 ? "" : "+",
                  duration(d.overhead_seconds), share(d.overhead_seconds, d.a.seconds));
  const auto most =
      std::max_element(d.overhead.begin(), d.overhead.end(),
                       [](const trace::OverheadPart& a, const trace::OverheadPart& b) {
                         return a.seconds < b.seconds;
                       });
  if (most != d.overhead.end() && most->seconds > 0 && d.overhead_seconds > 0)
    text += fmt::format(" Most of it is {}, {}.", most->name, duration(most->seconds));
  std::string flagged;
  for (const trace::Finding& f : d.findings)
    if (f.verdict == trace::Finding::Verdict::flagged)
      flagged += (flagged.empty() ? "" : ", ") + f.name;
  return text + (flagged.empty() ? " Nothing is flagged." : " Flagged: " + flagged + ".");
}

}  // namespace ac_advisor::reports
