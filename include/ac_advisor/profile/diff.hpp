#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::profile {

/// One figure of two profiles, in bytes, launches or dispatches.
struct Change {
  std::string name;
  std::int64_t a = 0;
  std::int64_t b = 0;
  [[nodiscard]] std::int64_t delta() const { return b - a; }
};

/// One option or figure of the model that is not the same in both.
struct FieldChange {
  std::string field;  ///< "ac", "model.layers", "device", "source"
  std::string a, b;
};

/// What differs between two profiles, and by how much. The lists of changes hold every row of which
/// either side is not zero, equal ones too: they sum to the totals.
struct Diff {
  std::string a_origin, b_origin;  ///< file names, for headings
  std::vector<Change> totals;      ///< peak_allocated, peak_reserved, …
  std::vector<Change> categories;  ///< at the peak, in the order of Category
  std::vector<Change> modules;     ///< at the peak, largest change first
  std::vector<Change> phases;      ///< peak of each phase
  std::vector<Change> launches;    ///< by phase
  std::vector<Change> dispatches;
  double a_step_seconds = 0, b_step_seconds = 0;
  std::string a_peak, b_peak;       ///< "backward, mm of blocks.15.mlp"
  std::vector<FieldChange> fields;  ///< only those that differ
};

[[nodiscard]] Diff diff(const Profile& a, const Profile& b);
/// The fields alone; `diff` calls it.
[[nodiscard]] std::vector<FieldChange> diff_fields(const StepConfig& a, const StepConfig& b);
[[nodiscard]] std::vector<FieldChange> diff_fields(const model::ModelSpec& a,
                                                   const model::ModelSpec& b);

}  // namespace ac_advisor::profile
