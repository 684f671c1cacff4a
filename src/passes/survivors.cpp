// The pass that says what outlives the step: the loss, and what the training loop holds.
#include "ac_advisor/passes/pass.hpp"
#include "loop_names.hpp"

namespace ac_advisor::passes {
namespace {

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  if (step.loss != ir::no_id) step.surviving.push_back(step.loss);
  // Autograd's graph lives as long as the loss, which the loop binds anew a step later.
  step.surviving.insert(step.surviving.end(), step.graph_held.begin(), step.graph_held.end());
  if (config.memory.hold_output)
    step.surviving.insert(step.surviving.end(), step.outputs.begin(), step.outputs.end());
  for (const Carried& route : step.routes) {
    if (route.made == ir::no_id) continue;
    step.surviving.push_back(route.made);
    step.carried.push_back(route);
  }
  carry_names(step);
  for (std::size_t i = 0; i < step.outputs_before.size(); ++i)
    step.carried.push_back({step.outputs[i], step.outputs_before[i]});
  for (std::size_t i = 0; i < step.graph_before.size(); ++i)
    step.carried.push_back({step.graph_held[i], step.graph_before[i]});
}

}  // namespace

extern const Pass survivors_pass;
const Pass survivors_pass{"survivors",
                          Stage::step,
                          "what outlives the step: the loss, and the output that the loop holds",
                          always,
                          run,
                          {}};

}  // namespace ac_advisor::passes
