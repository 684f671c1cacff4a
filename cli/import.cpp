#include "ac_advisor/dryrun/dryrun.hpp"
#include "cli/commands.hpp"
#include "cli/not_measured.hpp"

namespace ac_advisor::cli {

/// The capture runs on the emulated device and writes the graph itself.
Result run_import(const Arguments& a) {
  const dryrun::Run run = dryrun::run({a.positional, a.dryrun.gpu, 1, 0, true});
  if (const std::string name = run.unanswered(); !name.empty())
    throw NotMeasured("not captured: the model called " + name +
                      ", which the emulated device does not answer");
  return {"", run.exit_code};
}

}  // namespace ac_advisor::cli
