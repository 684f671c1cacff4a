#pragma once

#include <string>
#include <vector>

#include "ac_advisor/reports/measurement.hpp"
#include "ac_advisor/reports/page.hpp"

namespace ac_advisor::reports {

/// Of a list that `of` parts share, what part `index` has: positions index, index + of, …
template <typename Item>
[[nodiscard]] std::vector<Item> own_part(const std::vector<Item>& all, const SweepPart& part) {
  std::vector<Item> own;
  for (auto i = static_cast<std::size_t>(part.index); i < all.size();
       i += static_cast<std::size_t>(part.of))
    own.push_back(all[i]);
  return own;
}

/// Whether a JSON text is what `advise --measure --format json` writes.
[[nodiscard]] bool is_measured_sweep(const std::string& text);
/// Reads it. Throws UserError naming `origin` and the field.
[[nodiscard]] Measurements read_measured_sweep(const std::string& text, const std::string& origin);
/// The whole sweep of its parts, in any order. Throws UserError: one is missing or there twice, or
/// they are of different sweeps.
[[nodiscard]] Measurements joined(const std::vector<Measurements>& parts);
/// Each configuration, predicted and measured, as documents of a page.
[[nodiscard]] std::vector<Document> documents_of(const Measurements& sweep);

}  // namespace ac_advisor::reports
