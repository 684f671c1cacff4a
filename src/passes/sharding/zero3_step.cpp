// The optimizer's step of DeepSpeed's ZeRO 3, deepspeed/runtime/zero/stage3.py (v0.19.8), step():
// a sub-group of parameters at a time.
#include <string>
#include <utility>
#include <vector>

#include "ac_advisor/passes/pass.hpp"
#include "ir/shared_rows.hpp"
#include "passes/optimizer/ops.hpp"
#include "passes/optimizer/optimizer.hpp"
#include "passes/pytorch_on_gpu.hpp"
#include "zero3_parts.hpp"
#include "zero_on_host.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

constexpr ir::ModulePath in_optimizer{-1, ir::Module::optimizer};

bool applies(const StepConfig& config) { return config.layout.zero3(); }

/// get_grad_norm_direct: each part's norm in doubles, then that of all. What follows is of scalars:
/// isinf, isnan and where, the same of all groups together, the clipping factor; 28 kernels and
/// three copies, as the emulated device counts them.
void append_norm(OptimizerOps& ops, const StepProgram& step) {
  constexpr std::int32_t of_scalars = 31;
  const ir::Program& p = ops.program();
  OptimizerOps::Values norms;
  for (const Parameter& parameter : step.parameters) {
    if (!parameter.trained) continue;
    const ir::Value part = p.value(parameter.stored);
    const std::int64_t elements = part.shape.numel();
    // A double for each element: two fp32, as no tensor of a step is in fp64.
    const OptimizerOps::Values wide{ops.temporary({elements, 2}, DType::f32)};
    norms.push_back(ops.temporary({}, DType::f32));
    ops.kernel({ops.program().narrow(step.zero3.gradients, 0, part.narrow_start, elements)}, wide);
    ops.op({&wide}, {norms.back()}, ir::whole_reduction_launches(elements));
  }
  const ValueId stacked = ops.temporary({static_cast<std::int64_t>(norms.size()), 2}, DType::f32);
  ops.op({&norms}, {stacked}, 0, OpKind::cat);
  ops.hold(norms);
  const OptimizerOps::Values all{stacked};
  ops.op({&all}, {}, of_scalars);
}

/// complete_grad_norm_calculation_for_cpu_offload: what each part left in backward, squared and
/// added up; then of scalars: all ranks' sum, its root, isinf (two), isnan, or and masked_fill.
void append_norm_of_host(OptimizerOps& ops, const StepProgram& step) {
  constexpr std::int32_t of_scalars = 7;
  ops.op({}, {}, 2 * static_cast<std::int32_t>(step.parameters.size()) + of_scalars);
}

/// Of the parameters whose parts stand there.
OptimizerOps::Values gradients_within(StepProgram& step, std::int64_t start,
                                      std::int64_t elements) {
  ir::Program& p = step.program;
  OptimizerOps::Values gradients;
  for (const Parameter& parameter : step.parameters) {
    if (!parameter.trained) continue;
    const std::int64_t at = p.value(parameter.stored).narrow_start,
                       part = p.value(parameter.stored).shape.numel();
    if (at < start || at >= start + elements) continue;
    gradients.push_back(p.narrow(step.zero3.gradients, 0, at, part));
  }
  return gradients;
}

/// Of each sub-group: its gradients joined and in fp32, the step, its parts in the compute dtype.
void step_sub_groups(StepProgram& step, const StepConfig& config) {
  ir::Program& p = step.program;
  const bool on_host = config.optimizer.kind == Optimizer::adamw_foreach && pytorch_on_gpu(config);
  const std::vector<OptimizedTensor> masters = std::exchange(step.optimized, {});
  std::int64_t start = 0;
  for (OptimizedTensor group : masters) {
    const std::int64_t elements = p.value(group.parameter).shape.numel();
    {
      OptimizerOps ops(step);
      const OptimizerOps::Values gradients = gradients_within(step, start, elements);
      const ValueId joined = ops.temporary({elements}, config.precision.compute_dtype);
      ops.op({&gradients}, {joined}, 0, OpKind::cat);
      group.gradient = ops.temporary({elements}, DType::f32);
      ops.kernel({joined}, {group.gradient});
      ops.hold({joined});
      ops.kernel({group.gradient}, {});  // unscale_and_clip_grads: mul_
    }
    step.optimized = {group};
    append_optimizer(step, config.optimizer, on_host);
    OptimizerOps ops(step);
    ops.kernel({group.parameter, p.narrow(step.zero3.partitions, 0, start, elements)}, {});
    ops.hold({group.gradient});
    start += elements;
  }
  step.optimized = masters;
}

/// The same where masters are the host's: it casts them, too. (What is offloaded stays pinned.)
void step_sub_groups_on_host(StepProgram& step, const StepConfig& config) {
  ir::Program& p = step.program;
  std::int64_t start = 0;
  OptimizerOps ops(step);
  append_on_host(ops, config.optimizer);
  if (zero_parameters_on_host(config)) return;
  for (const OptimizedTensor& group : step.optimized) {
    const std::int64_t elements = p.value(group.parameter).shape.numel();
    const OptimizerOps::Values part{p.narrow(step.zero3.partitions, 0, start, elements)};
    ops.op({&part}, {}, 0, OpKind::copy_from_host);
    ops.hold(part);
    start += elements;
  }
}

/// DeepSpeedZeroOptimizer_Stage3.step
void run_step(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  std::vector<ValueId> whole;
  for (ValueId v : step.zero3.persistent)
    if (v != no_id) whole.push_back(v);
  {
    OptimizerOps ops(step);
    if (!whole.empty()) ops.hold(whole);
    zero_on_host(config) ? append_norm_of_host(ops, step) : append_norm(ops, step);
  }
  zero_on_host(config) ? step_sub_groups_on_host(step, config) : step_sub_groups(step, config);
  for (std::size_t i = 0; i < step.zero3.persistent.size(); ++i) {  // _post_step
    if (step.zero3.persistent[i] == no_id) continue;
    const ValueId gathered = make_persistent(p, step.parameters[i], config.layout.world);
    const std::int32_t group = p.ops.back().group + 1;
    p.emit(OpKind::empty, Phase::optimizer, in_optimizer, {}, {gathered});
    p.emit(OpKind::all_gather, Phase::optimizer, in_optimizer, {gathered}, {});
    for (std::size_t op = p.ops.size() - 2; op < p.ops.size(); ++op) p.ops[op].group = group;
    step.surviving.push_back(gathered);
  }
}

}  // namespace

extern const Pass zero3_step_pass;
const Pass zero3_step_pass{"zero3-step",
                           Stage::step,
                           "zero3: the norm, each sub-group's step, small parameters whole again",
                           applies,
                           run_step,
                           {},
                           Of::pytorch};

}  // namespace ac_advisor::passes
