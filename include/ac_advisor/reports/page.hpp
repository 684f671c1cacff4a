#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/category_timeline.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/largest.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/reports/trace_summary.hpp"

namespace ac_advisor::reports {

/// One result: what a command has made, or what a file holds.
struct Document {
  std::string origin;  ///< the file's name; empty: made now
  std::variant<profile::Profile, advise::Sweep, profile::Diff, SweepDiff, Explanation, Trace,
               trace::Summary, RankSummaries, trace::Diagnosis, advise::Largest>
      value;
};

/// Of plan, measure and explain; null where it is something else.
[[nodiscard]] const profile::Profile* profile_of(const Document& document);

/// Reads any JSON that this program writes, by its "schema". Throws UserError naming `origin` and
/// the field; sizes that no model, device or step has are refused too.
[[nodiscard]] Document read_document(const std::string& text, const std::string& origin);

/// A configuration with its memory over the step by category, for the page to show whole.
struct Detail {
  std::string label;
  profile::Profile profile;
  std::vector<advise::CategoryPoint> timeline;
};
/// Plans it in full. Throws UserError.
[[nodiscard]] Detail detail(const model::ModelSpec& model, const StepConfig& config,
                            const std::string& label);
/// Of a sweep, most important first, at most `most`: the recommended row, those of the savings
/// table, the Pareto front's, the best ranked.
[[nodiscard]] std::vector<Detail> details(const advise::Sweep& sweep, std::size_t most = 16);

/// What one HTML report shows.
struct Page {
  std::vector<Document> documents;
  std::vector<Detail> details;
  std::string model_argument;  ///< MODEL as it was typed, for commands to copy; empty: its name
};

/// One file that needs no network. Every name in it is text, never markup.
[[nodiscard]] std::string html(const Page& page);

}  // namespace ac_advisor::reports
