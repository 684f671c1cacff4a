// The pass that lists what exists when the step begins and is no shard: whole parameters, inputs
// and buffers.
#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {
namespace {

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig&) {
  // Adapters are made when the frozen base is there (peft/mapping_func.py, get_peft_model), and a
  // reference model after all of the model.
  std::vector<ir::ValueId> reference;
  for (const Parameter& parameter : step.parameters) {
    if (parameter.stored != ir::no_id || parameter.trained) continue;
    const bool own = parameter.module.owner == ir::Owner::policy;
    (own ? step.resident : reference).push_back(parameter.value);
  }
  for (Parameter& parameter : step.parameters) {
    if (parameter.stored != ir::no_id) continue;  // a sharding pass has said what is stored
    parameter.stored = parameter.value;
    if (!parameter.trained) continue;
    step.resident.push_back(parameter.value);
    if (!parameter.stepped) {
      step.resident.push_back(parameter.gradient);
      continue;
    }
    step.optimized.push_back({parameter.value, parameter.gradient});
    if (parameter.gradient != ir::no_id) step.surviving.push_back(parameter.gradient);
  }
  step.resident.insert(step.resident.end(), reference.begin(), reference.end());
  step.resident.insert(step.resident.end(), step.inputs.begin(), step.inputs.end());
  step.resident.insert(step.resident.end(), step.buffers.begin(), step.buffers.end());
}

}  // namespace

extern const Pass residents_pass;
const Pass residents_pass{"residents",
                          Stage::step,
                          "what is there before the step: unsharded parameters, inputs, buffers",
                          always,
                          run,
                          {}};

}  // namespace ac_advisor::passes
