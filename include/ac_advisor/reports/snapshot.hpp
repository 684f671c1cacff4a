#pragma once

#include <string>

#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/snapshot/against.hpp"
#include "ac_advisor/snapshot/analysis.hpp"

/// Renderers of what memory snapshots say.
namespace ac_advisor::reports {

[[nodiscard]] std::string table(const snapshot::Analysis& analysis, const Style& style);
[[nodiscard]] std::string markdown(const snapshot::Analysis& analysis);
/// The blocks that are live at the peak, largest first.
[[nodiscard]] std::string csv(const snapshot::Analysis& analysis);
/// A profile whose `source` is measured, with what only a snapshot tells in "snapshot".
[[nodiscard]] std::string json(const snapshot::Analysis& analysis);
[[nodiscard]] std::string html(const snapshot::Analysis& analysis);

[[nodiscard]] std::string table(const snapshot::Against& against, const Style& style);
[[nodiscard]] std::string markdown(const snapshot::Against& against);
/// Categories and phases: planned, measured.
[[nodiscard]] std::string csv(const snapshot::Against& against);
/// The analysis' JSON with "against".
[[nodiscard]] std::string json(const snapshot::Against& against);
[[nodiscard]] std::string html(const snapshot::Against& against);

[[nodiscard]] std::string table(const snapshot::Growth& growth, const Style& style);
[[nodiscard]] std::string markdown(const snapshot::Growth& growth);
[[nodiscard]] std::string csv(const snapshot::Growth& growth);
[[nodiscard]] std::string json(const snapshot::Growth& growth);
[[nodiscard]] std::string html(const snapshot::Growth& growth);

}  // namespace ac_advisor::reports
