// Parts of a layer that Megatron-core recomputes by themselves (core_v0.16, --recompute-modules):
// tensor_parallel.checkpoint, or CheckpointWithoutOutput (tensor_parallel/random.py), whose output
// has no memory from the end of the module that reads it until that module's gradient is there.
#include "layers.hpp"

namespace ac_advisor::passes {

bool MegatronLayers::recomputes(LayerPart part) const {
  const bool core = config_.memory.ac == AcMode::attention && config_.memory.ac_arg == 0;
  return config_.memory.recomputes(part) || (core && part == LayerPart::core_attn);
}

void MegatronLayers::checkpoint(LayerPart part, ir::OpId begin) {
  if (recomputes(part)) s_.parts.push_back(written(begin, {}));
}

/// discard_output_and_register_recompute.
void MegatronLayers::let_go(LayerPart part, RecomputedPart of, V hook) {
  if (!recomputes(part)) return;
  hold_all(of.outputs);
  of.hook = p_.value(p_.root(hook)).producer;
  s_.parts.push_back(std::move(of));
}

}  // namespace ac_advisor::passes
