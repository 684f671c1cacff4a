#include "host_time.hpp"

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::OpKind;
using ir::Phase;

bool is_fused(OpKind kind) {
  switch (kind) {
    case OpKind::rms_norm:
    case OpKind::add_rms_norm:
    case OpKind::rope:
    case OpKind::swiglu:
    case OpKind::linear_cross_entropy:
    case OpKind::rms_norm_backward:
    case OpKind::add_rms_norm_backward:
    case OpKind::rope_backward:
    case OpKind::swiglu_backward:
    case OpKind::linear_cross_entropy_backward:
      return true;
    default:
      return false;
  }
}

/// Tensors of a checkpointed region that an op saves (recomputation) or unpacks (backward): those
/// that the forward or its recomputation made.
int hooked_tensors(const ir::Program& p, const ir::Op& op) {
  if (op.phase == Phase::recompute) return op.inputs;
  if (op.phase != Phase::backward || op.forward == ir::no_id ||
      p.op(op.forward).region == ir::no_id)
    return 0;
  int count = 0;
  for (ir::ValueId v : p.inputs(op)) {
    const ir::OpId producer = p.value(p.root(v)).producer;  // a view has none of its own
    count += producer == ir::no_id || p.op(producer).phase != Phase::backward ? 1 : 0;
  }
  return count;
}

}  // namespace

/// The first op of a region's forward or of its recomputation; its backward calls no checkpoint.
bool IssueTimes::begins_region(const ir::Op& op) {
  if (op.region == ir::no_id || op.phase == Phase::backward) return false;
  if (op.region == region_ && op.phase == phase_) return false;
  region_ = op.region;
  phase_ = op.phase;
  return true;
}

double IssueTimes::operator()(const ir::Op& op) {
  if (op.kind == OpKind::all_gather && op.phase != Phase::optimizer && d_.gather_seconds > 0)
    return d_.gather_seconds;
  const double one = op.phase == Phase::backward ? d_.backward_op_seconds : d_.forward_op_seconds;
  double issue = is_fused(op.kind) ? d_.fused_op_seconds : one * ir::dispatches(op);
  if (begins_region(op)) issue += d_.region_seconds / 2;
  if (d_.saved_hook_seconds <= 0 || ir::dispatches(op) == 0) return issue;
  // Its pack or unpack hook is Python, too; what it does beside is not known better.
  if (op.kind == OpKind::copy_to_host || op.kind == OpKind::copy_from_host)
    return issue + d_.saved_hook_seconds;
  return issue + d_.saved_hook_seconds * hooked_tensors(p_, op);
}

}  // namespace ac_advisor::simulate
