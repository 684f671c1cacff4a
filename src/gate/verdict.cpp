#include "ac_advisor/gate/verdict.hpp"

#include <algorithm>

namespace ac_advisor::gate {

const char* to_string(Outcome outcome) {
  static constexpr std::array<const char*, 12> names{
      "passes",       "improved",       "off",         "waived",
      "exceeded",     "waiver_expired", "no_baseline", "other_fingerprint",
      "missing_case", "not_measured",   "below_grade", "bad_input"};
  return names[static_cast<std::size_t>(outcome)];
}

const char* to_string(Check check) {
  static constexpr std::array<const char*, 3> names{"case", "budget", "baseline"};
  return names[static_cast<std::size_t>(check)];
}

Weight weight(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::passes:
    case Outcome::off:
      return Weight::fine;
    case Outcome::improved:
    case Outcome::waived:
      return Weight::news;
    case Outcome::bad_input:
      return Weight::failure;
    default:
      return verdict.level == Level::error ? Weight::failure : Weight::warning;
  }
}

std::size_t count(const Report& report, Weight wanted) {
  std::size_t n = 0;
  for (const CaseResult& c : report.cases)
    for (const Verdict& verdict : c.verdicts) n += weight(verdict) == wanted ? 1 : 0;
  return n;
}

int exit_code(const Report& report) {
  bool exceeded = false, not_measured = false;
  for (const CaseResult& c : report.cases)
    for (const Verdict& verdict : c.verdicts) {
      if (verdict.outcome == Outcome::bad_input) return 2;
      if (weight(verdict) != Weight::failure) continue;
      (verdict.outcome == Outcome::not_measured ? not_measured : exceeded) = true;
    }
  return not_measured ? 3 : exceeded ? 1 : 0;
}

}  // namespace ac_advisor::gate
