#pragma once

#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/module_costs.hpp"
#include "ac_advisor/gate/verdict.hpp"
#include "ac_advisor/profile/diff.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/reports/sweep_diff.hpp"

/// Renderers: a value in, text out. Tables fit the style's columns; JSON carries exact integers in
/// bytes.
namespace ac_advisor::reports {

struct Style {
  bool color = false;      ///< only on a terminal, and not with NO_COLOR
  std::size_t rows = 15;   ///< ranked rows shown before "[N others]"
  std::size_t width = 80;  ///< columns of a line
  bool utf8 = true;        ///< off: ASCII alone, for a terminal that shows nothing else
};

/// Where the peak is, and why the mode costs and saves what it does (`advise::explain_mode`).
struct Explanation {
  profile::Profile profile;
  std::vector<std::string> sentences;
  advise::ModuleCosts modules{};  ///< which kind of module to checkpoint first; empty: not planned
};

/// What checkpointing does with each unique op of a block (`advise::selective_trace`).
using Trace = std::vector<advise::Decision>;

[[nodiscard]] std::string table(const profile::Profile& profile, const Style& style);
[[nodiscard]] std::string table(const advise::Sweep& sweep, const Style& style);
[[nodiscard]] std::string table(const profile::Diff& diff, const Style& style);
[[nodiscard]] std::string table(const SweepDiff& diff, const Style& style);
[[nodiscard]] std::string table(const Explanation& explanation, const Style& style);
[[nodiscard]] std::string table(const Trace& trace, const Style& style);

[[nodiscard]] std::string markdown(const profile::Profile& profile);
[[nodiscard]] std::string markdown(const advise::Sweep& sweep);
[[nodiscard]] std::string markdown(const profile::Diff& diff);
[[nodiscard]] std::string markdown(const SweepDiff& diff);
[[nodiscard]] std::string markdown(const Explanation& explanation);
[[nodiscard]] std::string markdown(const Trace& trace);

[[nodiscard]] std::string csv(const profile::Profile& profile);
[[nodiscard]] std::string csv(const advise::Sweep& sweep);
[[nodiscard]] std::string csv(const profile::Diff& diff);
[[nodiscard]] std::string csv(const SweepDiff& diff);
/// The ten largest tensors at the peak.
[[nodiscard]] std::string csv(const Explanation& explanation);
[[nodiscard]] std::string csv(const Trace& trace);

[[nodiscard]] std::string json(const profile::Profile& profile);
[[nodiscard]] std::string json(const advise::Sweep& sweep);
[[nodiscard]] std::string json(const profile::Diff& diff);
[[nodiscard]] std::string json(const SweepDiff& diff);
[[nodiscard]] std::string json(const Explanation& explanation);
[[nodiscard]] std::string json(const Trace& trace);

/// The gate's report: for a terminal, GitHub's step summary, machines, CI's test reports,
/// annotations of a pull request, GitLab's code quality widget, and Bencher.
[[nodiscard]] std::string table(const gate::Report& report, const Style& style);
[[nodiscard]] std::string markdown(const gate::Report& report);
[[nodiscard]] std::string json(const gate::Report& report);
[[nodiscard]] std::string junit(const gate::Report& report);
[[nodiscard]] std::string github(const gate::Report& report);
[[nodiscard]] std::string gitlab(const gate::Report& report);
[[nodiscard]] std::string bencher(const gate::Report& report);

}  // namespace ac_advisor::reports
