#include "observe_emulated.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "model/in_quotes.hpp"

namespace ac_advisor::gate {
namespace {

/// Why the run's figures are not those of the whole program; empty: they are.
std::string incomplete(const dryrun::Run& run, const dryrun::Request& request) {
  if (const std::string name = run.unanswered(); !name.empty())
    return "it called " + name + ", which the emulated device does not answer.";
  for (const dryrun::Record& record : run.records)
    if (record.out_of_memory)
      return fmt::format(
          "it ran out of memory in {} of step {}: {} asked for, {} allocated. It needs a larger "
          "GPU, "
          "or less memory.",
          record.out_of_memory->phase, record.out_of_memory->step,
          shown(Unit::bytes, record.out_of_memory->requested),
          shown(Unit::bytes, record.out_of_memory->allocated));
  if (run.exit_code != 0) return "it ended with " + run.ended + "; what it said is above.";
  if (run.records.empty()) return "it used no CUDA device.";
  if (!dryrun::record_of(run, request).ended)
    return "its process was killed, or became another program, before it told its figures.";
  return "";
}

}  // namespace

Observation observe_emulated(const GateFile& file, const Case& c) {
  const Command& command = *c.command;
  // The report has the standard output.
  const std::string folder = resolve_path(file, ".");
  dryrun::Request request{{"sh", "-c", "cd \"$0\" && exec \"$@\" >&2", folder},
                          command.gpu,
                          command.world,
                          command.rank};
  request.command.insert(request.command.end(), command.words.begin(), command.words.end());
  const dryrun::Run run = dryrun::run(request);
  Observation result;
  const auto refuse = [&](const std::string& why) {
    result.not_measured = fmt::format("{} was run on {}: {}",
                                      model::in_quotes(command.words.front()), command.gpu, why);
    return result;
  };
  if (const std::string why = incomplete(run, request); !why.empty()) return refuse(why);
  const profile::Profile p = dryrun::profile_of(run, request);
  const Figures figures = figures_of(p);
  for (const FigureRow& of : figure_table()) {
    const auto& limit = c.limits[index(of.figure)];
    if (limit && limit->level != Level::off && figures[index(of.figure)] == 0)
      return refuse(
          fmt::format("it has no {}, which is limited: no step of PyTorch was seen.", of.name));
  }
  result.now = make_baseline(c, p, {});
  return result;
}

}  // namespace ac_advisor::gate
