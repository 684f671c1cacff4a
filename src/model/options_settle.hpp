#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "ac_advisor/model/option_table.hpp"

namespace ac_advisor::options {

/// A configuration and which options set it.
struct Choices {
  StepConfig config;
  std::vector<const OptionRow*> rows;
  std::int64_t global_batch = 0;  ///< sequences a step over all ranks; 0: what the others make
  std::size_t yielding = 0;       ///< the first so many of `rows` yield, as a preset's choices do

  [[nodiscard]] bool has(std::string_view option) const {
    return std::find(rows.begin(), rows.end(), find_option(option)) != rows.end();
  }
  [[nodiscard]] bool insists(const OptionRow& row) const {
    return std::find(rows.begin() + static_cast<std::ptrdiff_t>(yielding), rows.end(), &row) !=
           rows.end();
  }
};

/// Fills in what depends on other options and refuses what contradicts by hand. `hand.config` is
/// the preset with the options by hand over it.
[[nodiscard]] StepConfig settle(const Choices& hand, const Choices& preset);

}  // namespace ac_advisor::options
