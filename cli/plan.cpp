#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_plan(const Arguments& a) {
  const model::ModelSpec model = model::load_model(a.positional.at(0), a.as);
  return render(advise::plan(model, resolve_options(a.options)), a.format,
                terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
