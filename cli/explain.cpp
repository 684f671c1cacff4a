#include "ac_advisor/advise/explain.hpp"

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_explain(const Arguments& a) {
  const model::ModelSpec model = model::load_model(a.positional.at(0), a.as);
  const StepConfig config = resolve_options(a.options);
  const reports::Style style = terminal_style(a.output, a.rows);
  if (a.trace && a.schedule) throw UserError("explain: --trace or --schedule, one at a time");
  if (a.schedule) {
    if (a.format != "table")
      throw UserError("explain --schedule --format " + a.format +
                      ": the schedule is text, for --format table only");
    return advise::schedule_text(model, config);
  }
  if (a.trace) return render(advise::selective_trace(model, config), a.format, style);
  return render(
      reports::Explanation{advise::plan(model, config), advise::explain_mode(model, config)},
      a.format, style);
}

}  // namespace ac_advisor::cli
