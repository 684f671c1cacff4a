#pragma once

#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/profile/diff.hpp"
#include "ac_advisor/profile/profile.hpp"

/// Renderers: a value in, text out. Tables fit 80 columns; JSON carries exact integers in bytes.
namespace ac_advisor::reports {

struct Style {
  bool color = false;     ///< only on a terminal, and not with NO_COLOR
  std::size_t rows = 15;  ///< ranked rows shown before "[N others]"
};

[[nodiscard]] std::string table(const profile::Profile& profile, const Style& style);
[[nodiscard]] std::string table(const advise::Sweep& sweep, const Style& style);
[[nodiscard]] std::string table(const profile::Diff& diff, const Style& style);

[[nodiscard]] std::string markdown(const profile::Profile& profile);
[[nodiscard]] std::string markdown(const advise::Sweep& sweep);
[[nodiscard]] std::string markdown(const profile::Diff& diff);

[[nodiscard]] std::string csv(const profile::Profile& profile);
[[nodiscard]] std::string csv(const advise::Sweep& sweep);
[[nodiscard]] std::string csv(const profile::Diff& diff);

[[nodiscard]] std::string json(const profile::Profile& profile);
[[nodiscard]] std::string json(const advise::Sweep& sweep);
[[nodiscard]] std::string json(const profile::Diff& diff);

/// Where the peak is, the ten largest tensors, and the sentences of `explain_mode`.
[[nodiscard]] std::string explanation(const profile::Profile& profile,
                                      const std::vector<std::string>& sentences,
                                      const Style& style);
[[nodiscard]] std::string trace(const std::vector<advise::Decision>& decisions, const Style& style);

}  // namespace ac_advisor::reports
