// An exponential moving average of the parameters (PyTorch v2.11, torch/optim/swa_utils.py:
// AveragedModel with get_ema_multi_avg_fn): a copy of what this rank stores, and a foreach lerp_.
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

bool applies(const StepConfig& config) { return config.optimizer.ema; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig&) {
  OptimizerOps ops(step);
  OptimizerOps::Values parameters, averages;
  for (const Parameter& parameter : step.parameters) {
    parameters.push_back(parameter.stored);
    averages.push_back(
        ops.state(ops.shape(parameter.stored), ops.dtype(parameter.stored), parameter.stored));
  }
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
