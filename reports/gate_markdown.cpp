// The gate's report in Markdown: GitHub's step summary, or a comment.
#include "ac_advisor/reports/reports.hpp"
#include "reports/gate_rows.hpp"

namespace ac_advisor::reports {

std::string markdown(const gate::Report& report) {
  std::string text = "### Memory gate: " + escape_markdown(headline(report)) + "\n\n";
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts)
      if (!v.message.empty())
        text += "- **" + std::string(verdict_word(v)) + "** " +
                escape_markdown(sentence(result, v)) + "\n";
  if (text.back() == '\n' && text[text.size() - 2] != '\n') text += "\n";
  return text + verdict_grid(report).markdown();
}

}  // namespace ac_advisor::reports
