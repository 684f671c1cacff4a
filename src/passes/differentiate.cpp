// The backward program: at once, or of a schedule that splits it in two parts.
#include "ac_advisor/passes/pass.hpp"
#include "backward.hpp"
#include "pipeline/split_backward.hpp"

namespace ac_advisor::passes {
namespace {

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Backward backward(step, config.runtime.under_dispatch_mode, config.layout.zero3(),
                    config.memory.reentrant);
  const ir::OpId first = step.micro_begin.back();
  if (splits_backwards(config.layout.pp_schedule)) return split_backward(step, backward, first);
  backward.run(first);
}

}  // namespace

extern const Pass differentiate_pass;
const Pass differentiate_pass{"differentiate",
                              Stage::micro_batch,
                              "the backward, in the order of PyTorch's autograd engine",
                              always,
                              run,
                              {},
                              Of::configuration};

}  // namespace ac_advisor::passes
