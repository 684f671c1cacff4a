// The pass that puts an encoder beside the decoder: the parameters of one that does not run.
#include "ac_advisor/passes/pass.hpp"
#include "fsdp2_buffers.hpp"

namespace ac_advisor::passes {
namespace {

bool always(const StepConfig&) { return true; }

// Resident, whole or this rank's shards, without gradients and optimizer states: an optimizer of
// PyTorch's makes no states for a gradient of None.
void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  if (!spec.tower) return;
  const std::int64_t ranks = config.layout.gathers() ? fsdp_shards(config) : 1;
  for (const model::TensorGroup& group : spec.tower->groups) {
    for (const std::vector<std::int64_t>& shape : group.shapes) {
      std::int64_t numel = (shape.front() + ranks - 1) / ranks;  // fully_shard pads dim 0
      for (std::size_t i = 1; i < shape.size(); ++i) numel *= shape[i];
      for (std::int64_t n = 0; n < group.times; ++n)
        step.resident.push_back(step.program.make({numel}, config.precision.param_dtype,
                                                  ir::Role::parameter,
                                                  {-1, ir::Module::vision_tower}));
    }
  }
}

}  // namespace

extern const Pass tower_pass;
const Pass tower_pass{
    "tower", Stage::before,   "parameters of an image encoder that does not run", always, run,
    {},      Of::transformers};

}  // namespace ac_advisor::passes
