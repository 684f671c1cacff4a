#include "in_plan.hpp"

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "advise/budget.hpp"

namespace ac_advisor::oom {
namespace {

bool is_of(const ir::Program& p, const ir::Op& op, Role role) {
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
    default:
      static_cast<void>(p);
      return false;
  }
}

}  // namespace

std::optional<InPlan> find_in_plan(const model::ModelSpec& model, const StepConfig& config,
                                   std::int64_t bytes, Role role) {
  const advise::Solved solved =
      advise::solve(model, config, simulate::find_device(config.device.gpu));
  const ir::Program& p = solved.step.program;
  const ir::Op* any = nullptr;
  const ir::Op* of_role = nullptr;
  for (const ir::Op& op : p.ops) {
    for (const ir::ValueId v : p.outputs(op)) {
      if (p.value(v).base != ir::no_id || p.storage(p.storage_of(v)).bytes != bytes) continue;
      if (any == nullptr) any = &op;
      if (of_role == nullptr && is_of(p, op, role)) of_role = &op;
    }
    if (of_role != nullptr) break;
  }
  const ir::Op* found = of_role != nullptr ? of_role : role == Role::unknown ? any : nullptr;
  if (found == nullptr) return std::nullopt;
  return InPlan{ir::name_of(p, *found), to_string(found->module),
                profile::phase_names[static_cast<std::size_t>(found->phase)]};
}

}  // namespace ac_advisor::oom
