// GitLab's code quality report: docs.gitlab.com/ci/testing/code_quality, "Code Quality report
// format". A finding's fingerprint is what makes it the same finding in the next pipeline.
#include <nlohmann/json.hpp>

#include "ac_advisor/reports/reports.hpp"
#include "files/fingerprint.hpp"
#include "reports/gate_rows.hpp"

namespace ac_advisor::reports {
namespace {

const char* severity(const gate::Verdict& v) {
  switch (gate::weight(v)) {
    case gate::Weight::failure:
      return v.outcome == gate::Outcome::bad_input ? "critical" : "major";
    case gate::Weight::warning:
      return "minor";
    default:
      return "info";
  }
}

}  // namespace

std::string gitlab(const gate::Report& report) {
  using Json = nlohmann::ordered_json;
  Json out = Json::array();
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts) {
      // Good news is no finding.
      if (v.message.empty() || v.outcome == gate::Outcome::improved) continue;
      out.push_back(
          {{"description", printable(sentence(result, v))},
           {"check_name", fmt::format("ac-advisor/{}", gate::to_string(v.outcome))},
           {"fingerprint", files::fingerprint(report.origin + "\n" + result.name + "\n" +
                                              check_name(v) + gate::to_string(v.outcome))},
           {"severity", severity(v)},
           {"location", {{"path", v.place.file}, {"lines", {{"begin", v.place.line}}}}}});
    }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
