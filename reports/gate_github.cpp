// Annotations of a pull request: GitHub's workflow commands, one a line.
// Escapes: actions/toolkit, packages/core/src/command.ts (escapeData, escapeProperty).
#include <fmt/format.h>

#include "ac_advisor/reports/reports.hpp"
#include "reports/gate_rows.hpp"

namespace ac_advisor::reports {
namespace {

std::string escape(const std::string& text, bool property) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '%' || (property && (c == ':' || c == ',')))
      safe += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      safe += c;
  }
  return safe;
}

const char* command(const gate::Verdict& v) {
  switch (gate::weight(v)) {
    case gate::Weight::failure:
      return "error";
    case gate::Weight::warning:
      return "warning";
    default:
      return "notice";
  }
}

}  // namespace

std::string github(const gate::Report& report) {
  std::string text;
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts)
      if (!v.message.empty())
        text += fmt::format("::{} file={},line={},title={}::{}\n", command(v),
                            escape(v.place.file, true), v.place.line,
                            escape(result.name + ": " + check_name(v), true),
                            escape(sentence(result, v), false));
  return text + escape(report.origin + ": " + headline(report), false) + "\n";
}

}  // namespace ac_advisor::reports
