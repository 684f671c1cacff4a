#include <filesystem>
#include <variant>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/measured_sweep.hpp"
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

/// Files of a measured sweep, in parts or whole; none where the first is something else.
std::vector<reports::Measurements> read_measured(const std::vector<std::string>& files) {
  std::vector<reports::Measurements> parts;
  for (const std::string& file : files) {
    std::error_code none;
    if (std::filesystem::is_directory(file, none)) return {};
    auto content = trace::read_trace_or_text(file);
    const auto* text = std::get_if<std::string>(&content);
    if (text == nullptr || !reports::is_measured_sweep(*text)) {
      if (parts.empty()) return {};
      throw UserError(file + ": is no part of a measured sweep, as " + files.front() +
                      " is; give one kind of file at a time");
    }
    parts.push_back(reports::read_measured_sweep(*text, file));
  }
  return parts;
}

}  // namespace

std::string run_report(const Arguments& a) {
  if (const auto parts = read_measured(a.positional); !parts.empty()) {
    const reports::Measurements whole = reports::joined(parts);
    if (a.format == "html") return reports::html({reports::documents_of(whole), {}, {}});
    return render(whole, a.format, terminal_style(a.output, a.rows));
  }
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
