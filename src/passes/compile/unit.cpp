#include "unit.hpp"

#include <algorithm>

#include "kernels.hpp"
#include "partition.hpp"

namespace ac_advisor::passes::compile {

Unit compile_unit(const JointGraph& joint, double budget) {
  const std::vector<NodeId> inputs = joint.all(Target::placeholder),
                            tangents = joint.all(Target::tangent);
  std::vector<NodeId> saved;
  for (NodeId n : saved_values(joint, budget))
    if (joint.node(n).target != Target::placeholder) saved.push_back(n);

  std::vector<NodeId> returned = joint.forward_outputs;
  returned.insert(returned.end(), saved.begin(), saved.end());
  Unit unit;
  unit.forward = write_kernels(joint, inputs, std::vector<bool>(inputs.size(), false), returned);

  std::vector<NodeId> given = inputs;
  given.insert(given.end(), saved.begin(), saved.end());
  given.insert(given.end(), tangents.begin(), tangents.end());
  // Donated buffers: what was saved and is no output of the forward
  // (torch/_functorch/_aot_autograd/graph_compile.py, v2.11: collect_bw_donated_buffer_idxs).
  std::vector<bool> donated(given.size(), false);
  for (std::size_t i = 0; i < saved.size(); ++i)
    donated[inputs.size() + i] =
        std::find(joint.forward_outputs.begin(), joint.forward_outputs.end(), saved[i]) ==
        joint.forward_outputs.end();
  unit.backward = write_kernels(joint, given, donated, joint.backward_outputs);
  return unit;
}

}  // namespace ac_advisor::passes::compile
