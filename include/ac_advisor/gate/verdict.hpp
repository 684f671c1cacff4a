#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/gate/figure.hpp"
#include "ac_advisor/gate/gate_file.hpp"
#include "ac_advisor/profile/diff.hpp"

namespace ac_advisor::gate {

enum class Outcome : std::uint8_t {
  passes,
  improved,           ///< below the baseline: good news
  off,                ///< not looked at
  waived,             ///< over its limit, and excused until a day
  exceeded,           ///< over its budget, or over what the baseline allows
  waiver_expired,     ///< over its limit, and excused no longer
  no_baseline,        ///< a regression is limited, and there is no baseline
  other_fingerprint,  ///< the baseline is of another model, option, schema or op table
  missing_case,       ///< a baseline whose case is gone
  not_measured,       ///< there is no profile to judge
  below_grade,        ///< less of the configuration was compared than "require" asks for
  bad_input,          ///< the model, an option, the profile or the baseline is wrong
};
[[nodiscard]] const char* to_string(Outcome outcome);

/// Against what.
enum class Check : std::uint8_t { whole_case, budget, baseline };
[[nodiscard]] const char* to_string(Check check);

/// Why a figure is what it is: what differs from the baseline, and what grew most.
struct Cause {
  std::vector<profile::FieldChange>
      fields;                               ///< "num_hidden_layers", "--ac"; the first is the cause
  std::optional<profile::Change> category;  ///< at the peak, or phase for launches and times
  std::optional<profile::Change> module;    ///< at the peak
};

/// Where a reader of a pull request should look.
struct Place {
  std::string file;
  int line = 1;
};

struct Verdict {
  Check check = Check::whole_case;
  Figure figure{};  ///< unless whole_case
  Outcome outcome = Outcome::passes;
  Level level = Level::error;  ///< of the limit
  std::optional<std::int64_t> now, baseline, limit;
  Cause cause;
  std::string message;  ///< sentences: what, why, and the way out; empty where it passes
  Place place;
};

/// One case's verdicts; a baseline without a case is one too.
struct CaseResult {
  std::string name;
  std::optional<Figures> figures;  ///< all of them, limited or not
  std::vector<Verdict> verdicts;
};

struct Report {
  std::string origin;  ///< of the gate's file
  std::vector<CaseResult> cases;
};

/// How a verdict counts.
enum class Weight : std::uint8_t { fine, news, warning, failure };
[[nodiscard]] Weight weight(const Verdict& verdict);
[[nodiscard]] std::size_t count(const Report& report, Weight weight);
/// 0 passes, 1 a limit is exceeded, 2 bad input, 3 could not measure; the worst of all is
/// 2, then 3, then 1.
[[nodiscard]] int exit_code(const Report& report);

}  // namespace ac_advisor::gate
