#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_advise(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const StepConfig base = resolve_options(a.options);
  tell_warnings(model, base);
  advise::Sweep sweep = advise::sweep(model, base, advise::space_around(model, base, a.options));
  if (a.format == "html") {
    std::vector<reports::Detail> details = reports::details(sweep);
    return reports::html({{{"", std::move(sweep)}}, std::move(details), a.positional.at(0)});
  }
  return render(sweep, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
