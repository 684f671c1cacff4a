#include "setting.hpp"

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

std::string split_label(const Layout& layout) {
  std::string text;
  if (layout.tp > 1) text += " tp" + std::to_string(layout.tp);
  if (layout.cp > 1) text += " cp" + std::to_string(layout.cp);
  if (layout.ep > 1) text += " ep" + std::to_string(layout.ep);
  if (layout.pp == 1) return text;
  text += " pp" + std::to_string(layout.pp);
  if (layout.pp_schedule == PipelineSchedule::gpipe) text += " gpipe";
  if (layout.pp_schedule == PipelineSchedule::zero_bubble)
    return text + (layout.pp_chunks > 1 ? " zb1:" + std::to_string(layout.pp_chunks) : " zb1");
  if (layout.pp_schedule == PipelineSchedule::zbv) text += " zbv";
  if (layout.pp_schedule == PipelineSchedule::dual_pipe_v) text += " dualpipev";
  if (!is_v_shaped(layout.pp_schedule) && layout.pp_chunks > 1)
    text += "v" + std::to_string(layout.pp_chunks);
  return text;
}

std::string setting(const StepConfig& c) {
  std::string text = ac_option(c);
  if (c.task.reference != Reference::none)
    text = std::string("ref-") + to_option(c.task.reference) + " " + text;
  if (c.memory.scope == AcScope::submodule && c.memory.ac != AcMode::none) text += "/submodule";
  text += " " + loss_option(c) + " " + to_option(c.memory.kernels);
  if (c.memory.offload == Offload::activations) text += " offload";
  if (c.memory.offload == Offload::parameters) text += " host-shards";
  if (c.memory.offload == Offload::optimizer) text += " host-states";
  if (c.memory.offload == Offload::gradients) text += " host-states-and-gradients";
  text += split_label(c.layout);
  if (c.layout.replica_ranks() > 1) text += " " + shard_option(c);
  return text;
}

}  // namespace ac_advisor::advise
