#pragma once

#include <string>

#include "ac_advisor/reports/page.hpp"

namespace ac_advisor::reports {

/// What to use, what it saves, what it costs and whether it fits, in a sentence or two.
[[nodiscard]] std::string verdict(const advise::Sweep& sweep);
/// Where the peak is and whether it fits.
[[nodiscard]] std::string verdict(const profile::Profile& profile);
[[nodiscard]] std::string verdict(const Explanation& explanation);
/// What B holds and takes against A; where one was measured, how good the prediction is.
[[nodiscard]] std::string verdict(const profile::Profile& a, const profile::Profile& b);
[[nodiscard]] std::string verdict(const profile::Diff& diff);
[[nodiscard]] std::string verdict(const SweepDiff& diff);
[[nodiscard]] std::string verdict(const Trace& trace);
/// Where a step's time goes.
[[nodiscard]] std::string verdict(const trace::Summary& summary);
[[nodiscard]] std::string verdict(const RankSummaries& ranks);
/// What checkpointing costs, and on what.
[[nodiscard]] std::string verdict(const trace::Diagnosis& diagnosis);
/// What the largest is.
[[nodiscard]] std::string verdict(const advise::Largest& largest);

/// The row that `row` saves and costs against: same batch and sharding, nothing saved. Null where
/// the sweep has none.
[[nodiscard]] const advise::Row* plain_row(const advise::Sweep& sweep, const advise::Row& row);

}  // namespace ac_advisor::reports
