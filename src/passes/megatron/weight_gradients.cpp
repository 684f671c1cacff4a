// Gradient-accumulation fusion: the product of a weight's gradient adds to the main gradient, and
// autograd is given a tensor of the weight's shape that nobody reads, or nothing. Transformer
// Engine: module/linear.py, grouped_linear.py, base.py (get_dummy_wgrad); Megatron-core's own
// layers: tensor_parallel/layers.py, by Apex's kernel.
#include <algorithm>

#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

/// get_dummy_wgrad: one tensor for all weights of a shape, which stays.
void MegatronLayers::fuse(Parameter& parameter) {
  if (!config_.memory.fused_gradients) return;
  const Shape size = shape(parameter.value);
  const auto alike = std::find_if(s_.buffers.begin(), s_.buffers.end(), [&](V v) {
    return p_.storage(p_.value(v).storage).role == Role::gradient && shape(v) == size;
  });
  if (alike != s_.buffers.end()) {
    parameter.stand_in = *alike;
    return;
  }
  parameter.stand_in = p_.make(size, dtype_, Role::gradient, at(Module::root));
  s_.buffers.push_back(parameter.stand_in);
}

/// The parameter that was made last.
ir::ValueId MegatronLayers::fused(V weight) {
  fuse(s_.parameters.back());
  return weight;
}

void MegatronLayers::find_fused() {
  for (const Parameter& parameter : s_.parameters)
    if (parameter.stand_in != ir::no_id) fused_.emplace(parameter.value, &parameter);
}

/// What stands for a gradient is read where another is added to it: of a tied embedding
/// (zero_out_wgrad).
MegatronLayers::GradientPlace MegatronLayers::gradient_place(std::vector<V>& given,
                                                             V weight) const {
  const auto found = fused_.find(weight);
  if (found == fused_.end()) return {};
  const Parameter& parameter = *found->second;
  const auto take = [&](V v) {
    given.push_back(v);
    return static_cast<std::int32_t>(given.size()) - 1;
  };
  GradientPlace place;
  place.main = take(s_.optimized[parameter.optimized].gradient);
  if (weight == m_.embed) place.stand_in = take(parameter.stand_in);
  return place;
}

CompiledGraph::Made MegatronLayers::of_weight(V weight, GradientPlace place) const {
  if (place.main < 0) return {shape(weight), dtype_, -1};
  const V main = s_.optimized[fused_.at(weight)->optimized].gradient;
  return {shape(weight), dtype(main), place.main};
}

/// `made`, or of a fused one zeros of a tied embedding, to which the embedding's own is added.
std::int32_t MegatronLayers::result_of_weight(CompiledGraph& g, std::int32_t gradient, V weight,
                                              GradientPlace place, std::int32_t made,
                                              Module leaf) const {
  if (place.main < 0) return made;
  if (place.stand_in < 0) return -1;
  const auto make = [&](const CompiledGraph::Made& tensor) {
    g.made.push_back(tensor);
    return gradient + static_cast<std::int32_t>(g.made.size());
  };
  const std::int32_t zeros = make({shape(weight), dtype_, place.stand_in});
  g.launches.push_back({OpKind::fill, ir::Number{}, leaf, {}, {zeros}});
  CompiledGraph::Made detached{shape(weight), dtype_, -1};
  detached.of = zeros;
  return make(detached);
}

}  // namespace ac_advisor::passes
