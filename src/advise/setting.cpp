#include "setting.hpp"

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

std::string setting(const StepConfig& c) {
  std::string text = ac_option(c);
  if (c.memory.scope == AcScope::submodule && c.memory.ac != AcMode::none) text += "/submodule";
  text += " " + loss_option(c) + " " + to_option(c.memory.kernels);
  if (c.layout.tp > 1) text += " tp" + std::to_string(c.layout.tp);
  if (c.layout.cp > 1) text += " cp" + std::to_string(c.layout.cp);
  if (c.layout.pp > 1) text += " pp" + std::to_string(c.layout.pp);
  if (c.layout.pp_schedule == PipelineSchedule::gpipe && c.layout.pp > 1) text += " gpipe";
  if (c.layout.pp_chunks > 1) text += "v" + std::to_string(c.layout.pp_chunks);
  if (c.layout.replica_ranks() > 1) text += " " + shard_option(c);
  return text;
}

}  // namespace ac_advisor::advise
