#include <fmt/format.h>

#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ac_advisor/passes/program_text.hpp"
#include "budget.hpp"

namespace ac_advisor::advise {

std::string program_text(const model::ModelSpec& model, const StepConfig& config) {
  return passes::program_text(solve(model, config, simulate::find_device(config.device.gpu)).step);
}

std::string passes_text(const model::ModelSpec& model, const StepConfig& config) {
  const StepConfig settled =
      solve(model, config, simulate::find_device(config.device.gpu)).settled;
  std::vector<passes::PassChange> changes;
  const passes::StepProgram step = passes::build_step_logged(model, settled, changes);
  constexpr const char* stages[] = {"before", "micro-batch", "step"};
  const auto row = [](auto name, auto stage, auto runs, auto more, auto fewer, auto storages,
                      auto bytes) {
    return fmt::format("{:<15}{:<12}{:>5}{:>8}{:>8}{:>10}{:>16}", name, stage, runs, more, fewer,
                       storages, bytes);
  };
  std::string text =
      row("pass", "stage", "runs", "ops +", "ops -", "storages", "bytes") + "  does\n";
  for (const passes::PassChange& c : changes) {
    const char* stage = stages[static_cast<std::size_t>(c.pass->stage)];
    text +=
        (c.runs == 0 ? row(c.pass->name, stage, 0, "-", "-", "-", "-")
                     : row(c.pass->name, stage, c.runs, c.ops_added, c.ops_removed,
                           fmt::format("{:+}", c.storages), fmt::format("{:+}", c.storage_bytes))) +
        "  " + c.pass->does + "\n";
  }
  const passes::ProgramSize size = passes::size_of(step);
  return text + row("TOTAL", "", "", size.ops, "", size.storages, size.bytes) + "\n";
}

}  // namespace ac_advisor::advise
