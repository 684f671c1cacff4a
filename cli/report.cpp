#include <filesystem>
#include <variant>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/read_traces.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::cli {
namespace {

std::string rendered(const reports::Document& document, const Arguments& a) {
  return std::visit(
      [&](const auto& value) { return render(value, a.format, terminal_style(a.output, a.rows)); },
      document.value);
}

/// A saved result, a trace, or a folder of traces.
reports::Document read(const std::string& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none)) return read_traces({file});
  auto content = trace::read_trace_or_text(file);
  if (const auto* found = std::get_if<trace::TraceFile>(&content))
    return {file, trace::summary_of(*found)};
  return reports::read_document(std::get<std::string>(content), file);
}

}  // namespace

std::string run_report(const Arguments& a) {
  reports::Page page;
  for (const std::string& file : a.positional) page.documents.push_back(read(file));
  if (a.format == "html") return reports::html(page);
  if (page.documents.size() == 1) return rendered(page.documents.front(), a);
  if (a.format != "md" && a.format != "table")
    throw UserError("report --format " + a.format +
                    ": is of one file; give one, or use html or md");
  std::string text;
  for (const reports::Document& document : page.documents)
    text += (a.format == "md" ? "## " + reports::escape_markdown(document.origin)
                              : reports::printable(document.origin)) +
            "\n\n" + rendered(document, a) + "\n";
  return text;
}

}  // namespace ac_advisor::cli
