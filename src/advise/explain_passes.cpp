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
  StepConfig settled = config;
  settled.memory.block_modes =
      solve(model, config, simulate::find_device(config.device.gpu)).block_modes;
  std::vector<passes::PassChange> changes;
  const passes::StepProgram step = passes::build_step_logged(model, settled, changes);
  constexpr const char* stages[] = {"before", "micro-batch", "step"};
  constexpr const char* row = "{:<15}{:<12}{:>5}{:>8}{:>8}{:>10}{:>16}  {}\n";
  std::string text = fmt::format(fmt::runtime(row), "pass", "stage", "runs", "ops +", "ops -",
                                 "storages", "bytes", "does");
  for (const passes::PassChange& c : changes)
    text += c.runs == 0 ? fmt::format(fmt::runtime(row), c.pass->name,
                                      stages[static_cast<std::size_t>(c.pass->stage)], 0, "-", "-",
                                      "-", "-", c.pass->does)
                        : fmt::format(fmt::runtime(row), c.pass->name,
                                      stages[static_cast<std::size_t>(c.pass->stage)], c.runs,
                                      c.ops_added, c.ops_removed, fmt::format("{:+}", c.storages),
                                      fmt::format("{:+}", c.storage_bytes), c.pass->does);
  const passes::ProgramSize size = passes::size_of(step);
  return text + fmt::format(fmt::runtime(row), "TOTAL", "", "", size.ops, "", size.storages,
                            size.bytes, "");
}

}  // namespace ac_advisor::advise
