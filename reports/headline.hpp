#pragma once

#include <string>

#include "ac_advisor/reports/reports.hpp"

/// The first line of an answer on a terminal.
namespace ac_advisor::reports {

/// `text` behind ✓ or ✗, wrapped to the width, green or red where there is colour.
[[nodiscard]] std::string marked(bool good, const std::string& text, const Style& style);
/// "✓ Fits: 52.6 of 79.2 GiB on each of 8 h100-80gb"; empty where the room was not measured.
[[nodiscard]] std::string headline(const profile::Profile& profile, const Style& style);
/// "✓ full ce eager b4 fits: 33.7 of 79.2 GiB on one h100-80gb, an estimated 19,511 tokens/s"
[[nodiscard]] std::string headline(const advise::Sweep& sweep, const Style& style);

}  // namespace ac_advisor::reports
