#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "cli/sweep_space.hpp"

namespace ac_advisor::cli {

advise::Space space_of(const Arguments& a, const model::ModelSpec& model, const StepConfig& base) {
  advise::Space space = advise::default_space(model, base);
  for (const advise::Axis& axis : std::vector(space.axes))
    if (axis.option != "--batch" && given(a.options, axis.option)) space.keep(axis.option, base);
  return space;
}

std::string run_advise(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const StepConfig base = resolve_options(a.options);
  tell_warnings(model, base);
  advise::Sweep sweep = advise::sweep(model, base, space_of(a, model, base));
  if (a.format == "html") {
    std::vector<reports::Detail> details = reports::details(sweep);
    return reports::html({{{"", std::move(sweep)}}, std::move(details), a.positional.at(0)});
  }
  return render(sweep, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
