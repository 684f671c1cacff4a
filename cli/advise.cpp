#include <algorithm>

#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_advise(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& base = resolved.config;
  tell_warnings(model, base);
  advise::Space space =
      advise::space_around(model, base, resolved.options, a.vary_global_batch);
  space.largest_batches = std::max(space.largest_batches, a.rows);
  advise::Sweep sweep = advise::sweep(model, base, space);
  if (a.format == "html") {
    std::vector<reports::Detail> details = reports::details(sweep);
    return reports::html({{{"", std::move(sweep)}}, std::move(details), a.positional.at(0)});
  }
  return render(sweep, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
