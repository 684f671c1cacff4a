#include "ac_advisor/model/sized.hpp"

#include <memory>

#include "ac_advisor/graph/scale.hpp"
#include "ac_advisor/model/layers.hpp"

namespace ac_advisor::model {

std::optional<ModelSpec> sized(const ModelSpec& model, const StepConfig& config) {
  if (auto own = as_layers_have_it(model, config)) return own;
  const graph::Size size{config.run.batch, config.run.seq};
  if (model.graph == nullptr || size == graph::Size{model.graph->batch, model.graph->seq} ||
      !graph::has_size(*model.graph, size))
    return std::nullopt;
  ModelSpec other = model;
  other.graph = std::make_shared<const graph::Graph>(graph::at_size(*model.graph, size));
  return other;
}

}  // namespace ac_advisor::model
