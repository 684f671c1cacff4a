#pragma once

#include <map>
#include <string>
#include <vector>

#include "ac_advisor/reports/page.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {

/// Sentences that many configurations share, stored once.
class Sentences {
 public:
  [[nodiscard]] std::size_t add(const std::string& text);
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, std::size_t> at_;
  std::vector<std::string> list_;
};

/// A configuration's figures as the page's script reads them: options only where they are not
/// `base`'s, times and rates with six digits.
[[nodiscard]] Json row_json(const profile::Profile& profile, const StepConfig& base,
                            Sentences& notes);
/// Memory over the step by category, the largest tensors, the modules.
[[nodiscard]] Json detail_json(const Detail& detail);
/// The same of a saved profile, whose timeline knows the sum only.
[[nodiscard]] Json detail_json(const profile::Profile& profile);
/// The setting in each framework's words, or why it has none.
[[nodiscard]] Json settings_json(const profile::Profile& profile);

}  // namespace ac_advisor::reports
