// One HTML file: the template of reports/html/ with its style, its scripts and the data in it.
#include "ac_advisor/model/error.hpp"
#include "reports/grid.hpp"
#include "reports/html_data.hpp"
#include "reports/html_template.hpp"

namespace ac_advisor::reports {
namespace {

std::string content(std::string_view name, const Page& page) {
  if (name == "title") return escape_html(printable(page_title(page)));
  if (name == "verdict") return escape_html(printable(page_verdict(page)));
  if (name == "style") return std::string(html_part("report.css"));
  if (name == "sections")  // web/'s page has them too
    return filled(html_part("sections.html"),
                  [&](std::string_view inner) { return content(inner, page); });
  if (name == "data")
    return escape_json(page_data(page).dump(-1, ' ', false, Json::error_handler_t::replace));
  // In the order in which one uses the other.
  return scripts_text({"elements.js", "figures.js", "charts.js", "pareto.js", "ranking.js",
                       "timeline.js", "phases.js", "layout.js", "selected.js", "compare.js",
                       "sections.js", "theme.js", "page.js"});
}

}  // namespace

std::string html(const Page& page) {
  for (const Document& document : page.documents)
    if (const profile::Profile* p = profile_of(document); p != nullptr && !p->has("model"))
      throw UserError(document.origin +
                      ": has no model and configuration to show; the page of a snapshot is made of "
                      "the snapshot: ac-advisor snapshot FILE --format html");
  return filled(html_part("report.html"),
                [&](std::string_view name) { return content(name, page); });
}

}  // namespace ac_advisor::reports
