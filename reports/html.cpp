// One HTML file: the template of reports/html/ with its style, its scripts and the data in it.
#include "embedded/embedded.hpp"
#include "reports/grid.hpp"
#include "reports/html_data.hpp"

namespace ac_advisor::reports {
namespace {

std::string_view part(const std::string& name) {
  for (const embedded::File& file : embedded::files())
    if (file.path == "reports/html/" + name) return file.text;
  throw std::logic_error("reports/html/" + name + " is not built in");
}

// In the order in which one uses the other.
constexpr const char* scripts[] = {"elements.js", "figures.js",  "charts.js", "pareto.js",
                                   "ranking.js",  "timeline.js", "phases.js", "selected.js",
                                   "compare.js",  "page.js"};

std::string escape_html(const std::string& text) {
  std::string safe;
  for (char c : text) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  return safe;
}

/// JSON inside <script>: no `<` means no tag and no comment can end or begin in it.
std::string escape_json(const std::string& json) {
  std::string safe;
  safe.reserve(json.size() + json.size() / 64);
  for (char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string content(std::string_view name, const Page& page) {
  if (name == "title") return escape_html(printable(page_title(page)));
  if (name == "verdict") return escape_html(printable(page_verdict(page)));
  if (name == "style") return std::string(part("report.css"));
  if (name == "data")
    return escape_json(page_data(page).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string text;
  for (const char* script : scripts) text += std::string(part(script));
  return text;
}

}  // namespace

std::string html(const Page& page) {
  const std::string_view whole = part("report.html");
  std::string text;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t open = std::min(whole.find("{{", at), whole.size());
    text += whole.substr(at, open - at);
    if (open == whole.size()) break;
    const std::size_t close = whole.find("}}", open);
    text += content(whole.substr(open + 2, close - open - 2), page);
    at = close + 2;
  }
  return text;
}

}  // namespace ac_advisor::reports
