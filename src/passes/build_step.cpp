// The pipeline of passes: lower, fuse, assign regions, differentiate, recompute, shard, optimize.
#include <algorithm>
#include <memory>

#include "ac_advisor/passes/passes.hpp"
#include "checkpoint.hpp"
#include "lowering.hpp"
#include "optimizer.hpp"
#include "shard.hpp"

namespace ac_advisor::passes {

namespace {

std::unique_ptr<ShardPass> make_shard_pass(StepProgram& step, const StepConfig& config) {
  switch (config.layout.shard) {
    case Sharding::fsdp2:
    case Sharding::hsdp:
      return make_fsdp2(step, config);
    case Sharding::ddp:
      return make_ddp(step, config);
    case Sharding::zero1:
    case Sharding::zero2:
      return make_zero(step, config);
    case Sharding::none:
      break;
  }
  return nullptr;
}

/// One process: the optimizer updates the parameters themselves.
std::vector<OptimizedTensor> whole_parameters(StepProgram& step) {
  std::vector<OptimizedTensor> tensors;
  for (Parameter& parameter : step.parameters) {
    parameter.stored = parameter.value;
    step.resident.push_back(parameter.value);
    tensors.push_back({parameter.value, parameter.gradient});
    if (parameter.gradient != ir::no_id) step.surviving.push_back(parameter.gradient);
  }
  return tensors;
}

}  // namespace

StepProgram build_step(const model::ModelSpec& spec, const StepConfig& config) {
  validate(spec, config);
  StepProgram step;
  step.loss_scale = 1.0 / static_cast<double>(config.run.grad_accum);
  Lowering lowering(spec, config, step);
  lowering.declare();
  const std::unique_ptr<ShardPass> shard = make_shard_pass(step, config);
  const bool sharded = shard != nullptr;
  const std::int64_t micro_batches =
      micro_batches_written(config.run.grad_accum, config.layout.no_sync);
  std::int32_t regions = 0;
  for (std::int64_t micro = 0; micro < micro_batches; ++micro) {
    const auto first = static_cast<ir::OpId>(step.program.ops.size());
    step.micro_begin.push_back(first);
    lowering.forward();
    step.losses.push_back(step.loss);
    if (config.memory.kernels == Kernels::fused)
      fuse(step, first, config.memory.ac == AcMode::none || config.memory.scope == AcScope::block,
           config.memory.ac != AcMode::selective && config.memory.ac != AcMode::budget);
    step.chains.clear();
    regions = assign_regions(step, config, first, regions);
    // Whole gradients stay for the next micro-batch, except where only shards of them do.
    const bool whole =
        !sharded || (config.layout.no_sync && (config.layout.shard == Sharding::fsdp2 ||
                                               config.layout.shard == Sharding::hsdp));
    differentiate(step, first, config.runtime.under_dispatch_mode, whole);
    if (config.memory.ac != AcMode::none) {
      recompute_regions(step, first, selective_keep(step, config, first));
    }
    if (sharded) shard->rewrite(first);
  }
  const std::vector<OptimizedTensor> optimized =
      sharded ? shard->optimized() : whole_parameters(step);
  step.resident.insert(step.resident.end(), step.inputs.begin(), step.inputs.end());
  step.resident.insert(step.resident.end(), step.buffers.begin(), step.buffers.end());
  step.optimized = optimized;
  step.optimizer_states = add_optimizer_state(step, config.optimizer.kind, optimized);
  append_optimizer(step, config.optimizer.kind, optimized, step.optimizer_states);
  if (sharded) shard->after_optimizer();
  // The loss, and what the loop holds, until the next step.
  step.surviving.push_back(step.loss);
  if (config.memory.hold_output)
    step.surviving.insert(step.surviving.end(), step.outputs.begin(), step.outputs.end());
  return step;
}

}  // namespace ac_advisor::passes
