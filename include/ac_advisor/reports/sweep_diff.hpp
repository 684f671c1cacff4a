#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/profile/diff.hpp"

namespace ac_advisor::reports {

/// Version of the JSON that `json(const advise::Sweep&)` writes.
inline constexpr const char* sweep_schema = "ac-advisor/sweep/1";

/// Reads a sweep that `json` wrote. Throws UserError naming `origin` and the field.
[[nodiscard]] advise::Sweep sweep_from_json(const std::string& text, const std::string& origin);

/// One configuration of two sweeps; a side that lacks it is empty.
struct RowChange {
  struct Side {
    std::int64_t peak_bytes = 0;
    double step_seconds = 0;
    int rank = 0;  ///< 0: does not fit
  };
  std::string label;
  std::optional<Side> a, b;
  /// Bytes; 0 where a side is empty.
  [[nodiscard]] std::int64_t delta() const { return a && b ? b->peak_bytes - a->peak_bytes : 0; }
};

/// What differs between two sweeps.
struct SweepDiff {
  std::string a_origin, b_origin;            ///< file names, for headings
  std::vector<profile::FieldChange> fields;  ///< of the base configurations and the models
  std::vector<RowChange> rows;               ///< of either sweep; largest change of the peak first
  std::string a_recommendation, b_recommendation;
};

/// Rows are matched by label; base configurations and models by field.
[[nodiscard]] SweepDiff diff(const advise::Sweep& a, const advise::Sweep& b);

}  // namespace ac_advisor::reports
