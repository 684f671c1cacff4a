// An exponential moving average of the parameters (PyTorch v2.11, torch/optim/swa_utils.py:
// AveragedModel with get_ema_multi_avg_fn): a copy of what this rank stores, and a foreach lerp_.
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

bool applies(const StepConfig& config) { return config.optimizer.ema; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  const ir::Program& p = step.program;
  OptimizerOps ops(step);
  OptimizerOps::Values parameters, averages;
  if (config.run.images == 0)  // of an encoder that does not run too
    for (const ir::ValueId resident : step.resident)
      if (p.storage(p.value(resident).storage).module.leaf == ir::Module::vision_tower)
        parameters.push_back(resident);
  for (const Parameter& parameter : step.parameters)
    if (parameter.tied == ir::no_id) parameters.push_back(parameter.stored);
  for (const ir::ValueId stored : parameters)
    averages.push_back(ops.state(ops.shape(stored), ops.dtype(stored), stored));
  ops.stage({&averages, &parameters}, {}, 2);
}

constexpr Exclusion exclusions_of_ema[] = {
    {"--ema --shard zero1, zero2 or zero3", "DeepSpeed's partition has no average of its own",
     "use --shard ddp or fsdp2",
     [](const model::ModelSpec&, const StepConfig& c) { return applies(c) && c.layout.zero(); }},
};

}  // namespace

extern const Pass ema_pass;
const Pass ema_pass{"ema",   Stage::step, "a moving average of the parameters",
                    applies, run,         exclusions_of_ema};

}  // namespace ac_advisor::passes
