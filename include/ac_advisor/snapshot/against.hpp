#pragma once

#include <string>
#include <vector>

#include "ac_advisor/snapshot/analysis.hpp"

namespace ac_advisor::snapshot {

/// Planned and measured bytes of one category or phase.
struct Beside {
  std::string name;
  Bytes planned = 0, measured = 0;
  bool is_measured = true;  ///< false: the snapshot does not tell it
};

/// Blocks of one size that one side has more of.
struct Unmatched {
  Bytes size = 0;
  std::int64_t count = 0;
  std::string category, what;  ///< a module and op of the plan, or a source line
  [[nodiscard]] Bytes bytes() const { return size * count; }
};

/// A plan beside a snapshot.
struct Against {
  std::string plan;  ///< the file, or MODEL and its options
  Analysis analysis;
  profile::Profile planned;
  /// At the two peaks. Categories that a snapshot cannot tell apart are one: inputs, loss and held
  /// output are activations; gradients of activations are temporaries.
  std::vector<Beside> totals, categories, phases;
  /// Tensors at the peaks, paired by size, in the order in which they were made.
  std::int64_t matched = 0, planned_blocks = 0, measured_blocks = 0;
  Bytes matched_bytes = 0;
  std::int64_t matched_category = 0;                   ///< of the pairs, those of one category
  std::vector<Unmatched> only_planned, only_measured;  ///< most bytes first
  std::vector<std::string> findings;                   ///< the differences, in sentences
};

/// Plans the model of `planned` again, for the tensors at its peak. Throws UserError.
[[nodiscard]] Against against(Analysis analysis, const profile::Profile& planned,
                              const std::string& plan);

}  // namespace ac_advisor::snapshot
