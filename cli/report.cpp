#include <filesystem>
#include <utility>
#include <variant>
#include <vector>

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

/// What a file holds: a trace or a folder of traces, or the text of a saved result. A file may be a
/// pipe, which is read once.
using Content = std::variant<reports::Document, std::string>;

Content read(const std::string& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none)) return read_traces({file});
  auto content = trace::read_trace_or_text(file);
  if (const auto* found = std::get_if<trace::TraceFile>(&content))
    return reports::Document{file, trace::summary_of(*found)};
  return std::move(std::get<std::string>(content));
}

bool is_measured_sweep(const Content& content) {
  const auto* text = std::get_if<std::string>(&content);
  return text != nullptr && reports::is_measured_sweep(*text);
}

reports::Document document_of(Content content, const std::string& file) {
  if (auto* document = std::get_if<reports::Document>(&content)) return std::move(*document);
  return reports::read_document(std::get<std::string>(content), file);
}

/// A measured sweep, whole or in parts.
std::string report_of_sweep(const std::vector<Content>& contents, const Arguments& a) {
  std::vector<reports::Measurements> parts;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::string& file = a.positional[i];
    if (!is_measured_sweep(contents[i]))
      throw UserError(file + ": is no part of a measured sweep, as " + a.positional.front() +
                      " is; give one kind of file at a time");
    parts.push_back(reports::read_measured_sweep(std::get<std::string>(contents[i]), file));
  }
  const reports::Measurements whole = reports::joined(parts);
  if (a.format == "html") return reports::html({reports::documents_of(whole), {}, {}});
  return render(whole, a.format, terminal_style(a.output, a.rows));
}

}  // namespace

std::string run_report(const Arguments& a) {
  std::vector<Content> contents;
  for (const std::string& file : a.positional) contents.push_back(read(file));
  if (is_measured_sweep(contents.front())) return report_of_sweep(contents, a);
  reports::Page page;
  for (std::size_t i = 0; i < contents.size(); ++i)
    page.documents.push_back(document_of(std::move(contents[i]), a.positional[i]));
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
