#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

/// One configuration, predicted and run.
struct Measurement {
  std::string label;
  profile::Profile predicted, measured;
};

/// Which part of a sweep that several jobs share: its configurations index, index + of, …
struct SweepPart {
  std::int64_t index = 0, of = 1;
};

/// A sweep's configurations, and the rows of the cumulative savings table, each predicted and run.
struct Measurements {
  std::vector<Measurement> rows;
  std::vector<Measurement> savings;  ///< labels are the techniques
  SweepPart part;
};

[[nodiscard]] std::string table(const Measurement& measurement, const Style& style);
[[nodiscard]] std::string markdown(const Measurement& measurement);
[[nodiscard]] std::string csv(const Measurement& measurement);
/// The measured profile, with the predicted one inside as "predicted".
[[nodiscard]] std::string json(const Measurement& measurement);

[[nodiscard]] std::string table(const Measurements& measurements, const Style& style);
[[nodiscard]] std::string markdown(const Measurements& measurements);
[[nodiscard]] std::string csv(const Measurements& measurements);
[[nodiscard]] std::string json(const Measurements& measurements);

}  // namespace ac_advisor::reports
