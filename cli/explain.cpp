#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/module_costs.hpp"

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "cli/training.hpp"

namespace ac_advisor::cli {
namespace {

/// What explain prints as plain text.
struct Text {
  bool Arguments::*asked;
  const char* option;
  std::string (*print)(const model::ModelSpec& model, const StepConfig& config);
};
constexpr Text texts[] = {{&Arguments::schedule, "--schedule", advise::schedule_text},
                          {&Arguments::program, "--program", advise::program_text},
                          {&Arguments::passes, "--passes", advise::passes_text}};

}  // namespace

std::string run_explain(const Arguments& a) {
  if (a.mapping) return mapping_of(a);
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& config = resolved.config;
  const reports::Style style = terminal_style(a.output, a.rows);
  if (a.trace + a.schedule + a.program + a.passes > 1)
    throw UserError("explain: --trace, --schedule, --program or --passes, one at a time");
  const int texts_asked = a.schedule + a.program + a.passes;
  if (a.format != "table" || a.trace || texts_asked > 0) tell_warnings(model, config);
  for (const Text& text : texts) {
    if (!(a.*text.asked)) continue;
    if (a.format != "table")
      throw UserError(std::string("explain ") + text.option + " --format " + a.format +
                      ": this is text, for --format table only");
    return text.print(model, config);
  }
  if (a.trace) return render(advise::selective_trace(model, config), a.format, style);
  return render(
      reports::Explanation{advise::plan(model, resolved), advise::explain_mode(model, config),
                           advise::module_costs(model, config)},
      a.format, style);
}

}  // namespace ac_advisor::cli
