#pragma once

#include <string>
#include <vector>

#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "reports/grid.hpp"

/// The tables that the renderers of traces share: terminal, Markdown and HTML.
namespace ac_advisor::reports {

/// Lists hold at most `rows` rows; what a trace lacks has no table.
[[nodiscard]] std::vector<TitledGrid> grids(const trace::Summary& summary, std::size_t rows);
[[nodiscard]] std::vector<TitledGrid> grids(const trace::Ranks& ranks);
[[nodiscard]] std::vector<TitledGrid> grids(const trace::Diagnosis& diagnosis);

/// What is said beside the tables, in sentences.
[[nodiscard]] std::vector<std::string> sentences(const trace::Summary& summary);
[[nodiscard]] std::vector<std::string> sentences(const trace::Ranks& ranks);
[[nodiscard]] std::vector<std::string> sentences(const trace::Diagnosis& diagnosis);

/// "12.3" with four significant digits at most; "1.23 s", "4.56 ms", "7.89 us".
[[nodiscard]] std::string duration(double seconds);
[[nodiscard]] std::string share(double part, double whole);

}  // namespace ac_advisor::reports
