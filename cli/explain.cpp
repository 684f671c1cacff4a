#include "ac_advisor/advise/explain.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_explain(const Arguments& a) {
  const model::ModelSpec model = model::load_model(a.positional.at(0), a.as);
  const StepConfig config = resolve_options(a.options);
  const reports::Style style = terminal_style(a.output, a.rows);
  if (a.schedule) return advise::schedule_text(model, config);
  if (a.trace) return reports::trace(advise::selective_trace(model, config), style);
  const profile::Profile profile = advise::plan(model, config);
  if (a.format != "table") return render(profile, a.format, style);
  return reports::explanation(profile, advise::explain_mode(model, config), style);
}

}  // namespace ac_advisor::cli
