#include "in_plan.hpp"

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::oom {
namespace {

bool is_of(const ir::Op& op, Role role) {
  using ir::Module;
  switch (role) {
    case Role::logits:
      return op.module.leaf == Module::lm_head || op.phase == ir::Phase::loss ||
             op.module.leaf == Module::loss;
    case Role::state:
    case Role::temporary:
      return op.phase == ir::Phase::optimizer;
    case Role::gathered:
      return op.kind == ir::OpKind::all_gather;
    case Role::activation:
    case Role::scores:
    case Role::mask:
      return op.module.block >= 0 && op.phase != ir::Phase::optimizer;
    default:  // no op of the step makes it
      return false;
  }
}

}  // namespace

std::optional<InPlan> PlannedStep::find(std::int64_t bytes, Role role, std::string_view phase) {
  if (!solved_) solved_ = advise::solve(model_, config_, simulate::find_device(config_.device.gpu));
  const ir::Program& p = solved_->step.program;
  std::optional<InPlan> found;
  for (const ir::Op& op : p.ops) {
    if (!is_of(op, role)) continue;
    const std::string_view its = profile::phase_names[static_cast<std::size_t>(op.phase)];
    if (found && its != phase) continue;
    for (const ir::ValueId v : p.outputs(op))
      if (p.value(v).base == ir::no_id && p.storage(p.storage_of(v)).bytes == bytes) {
        found = InPlan{ir::name_of(p, op), to_string(op.module), std::string(its)};
        if (its == phase) return found;
        break;
      }
  }
  return found;
}

}  // namespace ac_advisor::oom
