#pragma once

#include <string>

#include "ac_advisor/gate/verdict.hpp"
#include "reports/grid.hpp"

/// What the renderers of a gate's report share.
namespace ac_advisor::reports {

/// A row a verdict: case, figure, baseline, now, limit, verdict.
[[nodiscard]] Grid verdict_grid(const gate::Report& report);
/// "fails", "warns", "ok", "better", "waived", "off"
[[nodiscard]] const char* verdict_word(const gate::Verdict& verdict);
/// "8 cases, 12 checks: 1 fails, 2 warn"
[[nodiscard]] std::string headline(const gate::Report& report);
/// "peak_allocated (budget)", "baseline"
[[nodiscard]] std::string check_name(const gate::Verdict& verdict);
/// "llama-1b: peak_allocated 33.2 GiB is …"
[[nodiscard]] std::string sentence(const gate::CaseResult& result, const gate::Verdict& verdict);

}  // namespace ac_advisor::reports
