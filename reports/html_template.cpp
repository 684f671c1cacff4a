// Pages are templates of reports/html/ with a style, scripts and data in them.
#include "reports/html_template.hpp"

#include <stdexcept>

#include "embedded/embedded.hpp"

namespace ac_advisor::reports {

std::string_view html_part(const std::string& name) {
  for (const embedded::File& file : embedded::files())
    if (file.path == "reports/html/" + name) return file.text;
  throw std::logic_error("reports/html/" + name + " is not built in");
}

std::string filled(std::string_view whole,
                   const std::function<std::string(std::string_view)>& content) {
  std::string text;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t open = std::min(whole.find("{{", at), whole.size());
    text += whole.substr(at, open - at);
    if (open == whole.size()) break;
    const std::size_t close = whole.find("}}", open);
    text += content(whole.substr(open + 2, close - open - 2));
    at = close + 2;
  }
  return text;
}

std::string scripts_text(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += html_part(name);
  return text;
}

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

}  // namespace ac_advisor::reports
