#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_advise(const Arguments& a) {
  const model::ModelSpec model = model::load_model(a.positional.at(0), a.as);
  const StepConfig base = resolve_options(a.options);
  return render(advise::sweep(model, base, advise::default_space(model, base)), a.format,
                terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
