// JUnit XML as Jenkins, GitLab and GitHub's reporters read it: a suite a gate, a test a check.
// What could not be judged is an error, what is over a limit a failure, warnings are output.
#include <fmt/format.h>

#include "ac_advisor/reports/reports.hpp"
#include "reports/gate_rows.hpp"

namespace ac_advisor::reports {
namespace {

using gate::Outcome;

/// XML 1.0, section 2.2: no control characters, and neither U+FFFE nor U+FFFF.
std::string escape(const std::string& text) {
  std::string safe;
  const std::string shown = printable(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    const std::string_view rest = std::string_view(shown).substr(i, 3);
    if (rest == "\xEF\xBF\xBE" || rest == "\xEF\xBF\xBF") {
      safe += '?';
      i += 2;
    } else {
      safe += c == '&'    ? "&amp;"
              : c == '<'  ? "&lt;"
              : c == '>'  ? "&gt;"
              : c == '"'  ? "&quot;"
              : c == '\'' ? "&apos;"
                          : std::string(1, c);
    }
  }
  return safe;
}

bool is_error(const gate::Verdict& v) {
  return v.outcome == Outcome::bad_input || v.outcome == Outcome::not_measured;
}

std::string body(const gate::CaseResult& result, const gate::Verdict& v) {
  const std::string message = escape(sentence(result, v));
  if (gate::weight(v) == gate::Weight::failure) {
    const char* element = is_error(v) ? "error" : "failure";
    return fmt::format("<{} type=\"{}\" message=\"{}\">{}</{}>", element,
                       gate::to_string(v.outcome), message, message, element);
  }
  if (v.outcome == Outcome::off) return "<skipped message=\"off\"/>";
  if (v.outcome == Outcome::waived) return fmt::format("<skipped message=\"{}\"/>", message);
  return v.message.empty() ? "" : fmt::format("<system-out>{}</system-out>", message);
}

}  // namespace

std::string junit(const gate::Report& report) {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::string cases;
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts) {
      ++tests;
      const bool failed = gate::weight(v) == gate::Weight::failure;
      errors += failed && is_error(v) ? 1 : 0;
      failures += failed && !is_error(v) ? 1 : 0;
      skipped += v.outcome == Outcome::off || v.outcome == Outcome::waived ? 1 : 0;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\">{}</testcase>\n",
                           escape(result.name), escape(check_name(v)), escape(v.place.file),
                           body(result, v));
    }
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", tests, failures,
                  errors, skipped);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite name=\"{}\" {}>\n"
      "{}  </testsuite>\n</testsuites>\n",
      counts, escape("ac-advisor check " + report.origin), counts, cases);
}

}  // namespace ac_advisor::reports
