// The gate's report on a terminal.
#include "ac_advisor/reports/reports.hpp"
#include "reports/gate_rows.hpp"
#include "reports/headline.hpp"

namespace ac_advisor::reports {

std::string table(const gate::Report& report, const Style& style) {
  std::string text = marked(gate::count(report, gate::Weight::failure) == 0,
                            printable(report.origin) + ": " + headline(report), style) +
                     "\n";
  text += verdict_grid(report).text(style.color, style.width);
  for (const gate::CaseResult& result : report.cases)
    for (const gate::Verdict& v : result.verdicts)
      if (!v.message.empty())
        text +=
            "\n" +
            wrap(std::string(verdict_word(v)) + " " + printable(sentence(result, v)), style.width) +
            "\n";
  return text;
}

}  // namespace ac_advisor::reports
