#include <unistd.h>

#include <algorithm>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/snapshot/write_plan.hpp"
#include "cli/assumed.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "reports/changes.hpp"
#include "reports/command_line.hpp"
#include "reports/grid.hpp"
#include "reports/headline.hpp"

namespace ac_advisor::cli {

namespace {

/// What to do next: write the setting, or plan the cheapest change that fits. Empty: there is
/// nothing to write it into.
std::string next_command(const Arguments& a, const model::ModelSpec& model,
                         const profile::Profile& planned,
                         const std::vector<advise::Change>& changes) {
  if (a.training || model.graph) return "";  // the file is the setting; a graph has none
  const std::string of = reports::shell_word(a.positional.at(0)) + " ";
  OptionList options = a.options;
  if (planned.fit.fits) {
    if (!advise::unavailable(model, planned.config).empty()) return "";
    options.emplace_back("--to", planned.config.runtime.framework);
    return "Next: ac-advisor export " + of + reports::command_line(options);
  }
  if (changes.empty()) return "";
  for (const OptionList::value_type& change : changes.front().options) {
    const auto same = std::find_if(options.begin(), options.end(), [&](const auto& option) {
      return option.first == change.first;
    });
    if (same != options.end())
      *same = change;
    else
      options.push_back(change);
  }
  return "Next: ac-advisor plan " + of + reports::command_line(options);
}

/// The verdict and what it rests on, the plan, and what to do about it.
std::string told(const Arguments& a, const model::ModelSpec& model,
                 const advise::Resolved& resolved, const profile::Profile& planned) {
  const reports::Style style = terminal_style(a.output, a.rows);
  std::vector<advise::Change> changes;
  if (!planned.fit.fits) changes = advise::changes_that_fit(model, planned, resolved.options);
  std::string text = reports::headline(planned, style);
  text += assumed_lines(resolved.options, planned.config, style) + "\n";
  text += reports::table(planned, style);
  if (!planned.fit.fits) text += "\n" + reports::changes_text(changes, false, style);
  if (const std::string next = next_command(a, model, planned, changes); !next.empty())
    text += "\n" + reports::printable(next) + "\n";  // one line, to be pasted
  return in_locale(text, style);
}

}  // namespace

Result run_plan(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& config = resolved.config;
  const auto exit_code = [&](const profile::Profile& p) {
    return a.fail_if_oom && !p.fit.fits ? 1 : 0;
  };
  if (a.format != "table") tell_warnings(model, config);
  if (a.format == "snapshot") {
    if (a.output.empty() && isatty(STDOUT_FILENO) == 1)
      throw UserError("--format snapshot is not text: give --output FILE.pickle");
    return {snapshot::plan_snapshot(model, config)};
  }
  if (a.format == "html") {
    reports::Detail detail = reports::detail(model, config, model.name);
    detail.profile.assumptions.insert(detail.profile.assumptions.begin(), resolved.notes.begin(),
                                      resolved.notes.end());
    const int code = exit_code(detail.profile);
    return {reports::html({{{"", detail.profile}}, {std::move(detail)}, a.positional.at(0)}), code};
  }
  const profile::Profile planned = advise::plan(model, resolved);
  if (a.strict && planned.evidence && planned.evidence->grade == evidence::Grade::extrapolated)
    throw UserError(
        "--strict: " + model.name + ": " + evidence::sentence(*planned.evidence) +
        "; leave out what was never compared, compare it with a run (ac-advisor dryrun), or drop "
        "--strict");
  if (a.format == "table") return {told(a, model, resolved, planned), exit_code(planned)};
  profile::Profile saved = planned;
  if (std::string words = assumed(resolved.options, config); !words.empty())
    saved.assumptions.insert(saved.assumptions.begin(), std::move(words));
  return {render(saved, a.format, terminal_style(a.output, a.rows)), exit_code(planned)};
}

}  // namespace ac_advisor::cli
