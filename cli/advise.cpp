#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

namespace {

/// A few settings are enough to know the largest: where nothing is recomputed, where all is, and in
/// between.
advise::Space solving_space(const OptionList& by_hand, const model::ModelSpec& model,
                            const StepConfig& base) {
  advise::Space space = advise::space_around(model, base, by_hand);
  if (!given(by_hand, "--ac")) space.set("--ac", {"none", "selective", "full"});
  space.keep("--ac-scope", base);
  return space;
}

std::string run_solve(const Arguments& a) {
  const reports::Style style = terminal_style(a.output, a.rows);
  if (a.measured) throw UserError("--solve --measure: what is solved is planned; drop one of them");
  if (a.solve == "model") {
    const StepConfig base = resolve_options(a.options);
    if (!a.positional.empty())
      throw UserError("--solve model " + a.positional.front() +
                      ": it looks through the sample models; drop MODEL, or use --solve batch");
    return render(advise::largest_model(base,
                                        [&](const model::ModelSpec& model) {
                                          return solving_space(
                                              advise::resolve(model, a.options).options, model,
                                              base);
                                        }),
                  a.format, style);
  }
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& base = resolved.config;
  tell_warnings(model, base);
  return render(advise::largest(a.solve == "seq" ? advise::Sought::seq : advise::Sought::batch,
                                model, base, solving_space(resolved.options, model, base)),
                a.format, style);
}

}  // namespace

std::string run_advise(const Arguments& a) {
  if (!a.solve.empty()) return run_solve(a);
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& base = resolved.config;
  tell_warnings(model, base);
  advise::Space space = advise::space_around(model, base, resolved.options, a.vary_global_batch);
  space.largest_batches = std::max(space.largest_batches, a.rows);
  advise::Sweep sweep = advise::sweep(model, base, space);
  if (a.format == "html") {
    std::vector<reports::Detail> details = reports::details(sweep);
    return reports::html({{{"", std::move(sweep)}}, std::move(details), a.positional.at(0)});
  }
  return render(sweep, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
