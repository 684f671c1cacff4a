#pragma once

#include <string>
#include <vector>

#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/trace/summary.hpp"

/// Renderers of what one trace says, and of what those of a run's ranks say together.
namespace ac_advisor::reports {

/// The traces of a folder: each rank's, and all of them beside each other.
struct RankSummaries {
  std::string origin;  ///< the folder
  std::vector<trace::Summary> each;
  trace::Ranks together;
};

[[nodiscard]] std::string table(const trace::Summary& summary, const Style& style);
[[nodiscard]] std::string markdown(const trace::Summary& summary);
/// The totals, then a row for each kernel, op, module, range, direction of copies.
[[nodiscard]] std::string csv(const trace::Summary& summary);
[[nodiscard]] std::string json(const trace::Summary& summary);
/// Reads what `json` wrote. Throws UserError naming `origin` and the field.
[[nodiscard]] trace::Summary summary_from_json(const std::string& text, const std::string& origin);

[[nodiscard]] std::string table(const RankSummaries& ranks, const Style& style);
[[nodiscard]] std::string markdown(const RankSummaries& ranks);
/// A row a rank.
[[nodiscard]] std::string csv(const RankSummaries& ranks);
[[nodiscard]] std::string json(const RankSummaries& ranks);
[[nodiscard]] RankSummaries ranks_from_json(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::reports
