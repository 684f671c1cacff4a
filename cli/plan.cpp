#include <unistd.h>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/snapshot/write_plan.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "reports/changes.hpp"

namespace ac_advisor::cli {

std::string run_plan(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& config = resolved.config;
  if (a.format != "table") tell_warnings(model, config);
  if (a.format == "snapshot") {
    if (a.output.empty() && isatty(STDOUT_FILENO) == 1)
      throw UserError("--format snapshot is not text: give --output FILE.pickle");
    return snapshot::plan_snapshot(model, config);
  }
  if (a.format == "html") {
    reports::Detail detail = reports::detail(model, config, model.name);
    detail.profile.assumptions.insert(detail.profile.assumptions.begin(), resolved.notes.begin(),
                                      resolved.notes.end());
    return reports::html({{{"", detail.profile}}, {std::move(detail)}, a.positional.at(0)});
  }
  const profile::Profile planned = advise::plan(model, resolved);
  if (a.strict && planned.evidence && planned.evidence->grade == evidence::Grade::extrapolated)
    throw UserError(
        "--strict: " + model.name + ": " + evidence::sentence(*planned.evidence) +
        "; leave out what was never compared, compare it with a run (ac-advisor dryrun), or drop "
        "--strict");
  const reports::Style style = terminal_style(a.output, a.rows);
  std::string text = render(planned, a.format, style);
  if (a.format == "table" && !planned.fit.fits)
    text += "\n" + reports::changes_text(advise::changes_that_fit(model, planned, resolved.options),
                                         false, style);
  return text;
}

}  // namespace ac_advisor::cli
