#pragma once

#include <string>

#include "ac_advisor/reports/measurement.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/compression_choice.hpp"
#include "reports/largest.hpp"

namespace ac_advisor::cli {

/// Colour and the terminal's width (60 to 160 columns) where the text goes to one, unless NO_COLOR
/// is set; ASCII alone where the locale is not UTF-8 and the text goes to stdout.
[[nodiscard]] reports::Style terminal_style(const std::string& output, std::size_t rows);

/// The text of a terminal: ASCII alone where the style asks for it.
[[nodiscard]] std::string in_locale(const std::string& text, const reports::Style& style);

/// To stdout, or whole to `file`: a temporary file beside it is renamed over it, so a full disk or
/// a read-only folder leaves the old file as it was. Throws UserError.
void write_output(const std::string& text, const std::string& file);

/// A file that `--format json` wrote, whole. Throws UserError.
[[nodiscard]] std::string read_saved_file(const std::string& file);

/// Calls the renderer of `format` (table, json, csv, md). Throws UserError for another word.
template <typename Value>
[[nodiscard]] std::string render(const Value& value, const std::string& format,
                                 const reports::Style& style);

}  // namespace ac_advisor::cli
