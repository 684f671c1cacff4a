#include "model_flops.hpp"

#include <algorithm>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {

using ir::no_id;
using ir::OpId;
using ir::OpKind;
using ir::Phase;

namespace {

bool is_product(const ir::Op& op) {
  const ir::CostClass cost = ir::row(op.kind).cost;
  return cost == ir::CostClass::matmul || cost == ir::CostClass::attention;
}

/// Whether blocks, or the model, are compiled: a compiled loss alone leaves their ops as they are.
bool has_units(const ir::Program& p) {
  return std::any_of(p.ops.begin(), p.ops.end(), [](const ir::Op& op) {
    return op.kind == OpKind::compiled_unit && op.module.leaf != ir::Module::loss;
  });
}

}  // namespace

ModelFlops::ModelFlops(const passes::StepProgram& step, const Device& device)
    : p_(step.program),
      device_(device),
      differentiated_(p_.ops.size(), !has_units(p_)),
      frozen_(p_.values.size(), false) {
  for (const ir::Op& op : p_.ops)
    if (op.phase == Phase::backward && op.forward != no_id)
      differentiated_[static_cast<std::size_t>(op.forward)] = true;
  for (const passes::Parameter& parameter : step.parameters)
    if (!parameter.trained) frozen_[static_cast<std::size_t>(parameter.value)] = true;
}

double ModelFlops::seconds_at_peak(OpId id) const {
  const double work = flops(id);
  if (work == 0) return 0;
  const ir::Op& op = p_.op(id);
  // The first operand may be an fp32 gradient of a scalar; the second is a matrix in every kind.
  const DType dtype = p_.value(p_.input(op, op.inputs > 1 ? 1 : 0)).dtype;
  return work / device_.peak_flops(size_of(dtype) == 1 ? DType::bf16 : dtype);
}

double ModelFlops::flops(OpId id) const {
  const ir::Op& op = p_.op(id);
  if (op.inputs == 0 || op.phase == Phase::recompute || op.phase == Phase::optimizer) return 0;
  if (op.kind == OpKind::captured)  // whose backward's kernels do more than that
    return op.phase == Phase::backward ? 0 : 3 * ir::flops(p_, op);
  if (!is_product(op)) return 0;
  if (op.phase == Phase::backward) return of_backward(op);
  const bool of_unit =
      !differentiated_[static_cast<std::size_t>(id)] && op.module.leaf != ir::Module::loss;
  return of_unit ? of_compiled(op) : ir::flops(p_, op);
}

double ModelFlops::of_backward(const ir::Op& op) const {
  const double all = ir::flops(p_, op);
  // Scores once more, and four products: of the five the first is computed again.
  if (op.kind == OpKind::sdpa_backward) return all * 4 / 5;
  if (op.forward == no_id) return all;
  const ir::Op& forward = p_.op(op.forward);
  switch (forward.kind) {
    case OpKind::compiled_unit:
      return 0;  // of_compiled
    case OpKind::linear_cross_entropy:
      return all - ir::flops(p_, forward);
    case OpKind::tiled_log_probs:  // tiles of logits
    case OpKind::tiled_divergence:
      return op.kind == OpKind::mm ? 0 : all;
    default:
      return all;
  }
}

/// Its backward is the unit's, which may compute some of its forward again.
double ModelFlops::of_compiled(const ir::Op& op) const {
  const bool bias_first = op.kind == OpKind::addmm || op.kind == OpKind::baddbmm;
  const std::size_t second = bias_first ? 2 : 1;
  const bool frozen =
      second < op.inputs && frozen_[static_cast<std::size_t>(p_.root(p_.input(op, second)))];
  return (frozen ? 2 : 3) * ir::flops(p_, op);
}

}  // namespace ac_advisor::simulate
