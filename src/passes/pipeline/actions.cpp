#include "actions.hpp"

namespace ac_advisor::passes {

using What = Message::What;

void RuntimeActions::forward(std::int64_t chunk) {
  const std::int64_t micro = of(chunk).forwards++;
  if (!is_run(micro)) return;
  to_.exchange({{What::input, chunk, micro}});
  to_.forward(chunk, micro);
  to_.exchange({{What::output, chunk, micro}});
}

void RuntimeActions::backward(std::int64_t chunk) {
  const std::int64_t micro = of(chunk).inputs++;
  ++of(chunk).weights;
  if (!is_run(micro)) return;
  to_.exchange({{What::output_gradient, chunk, micro}});
  to_.backward(chunk, micro);
  to_.exchange({{What::input_gradient, chunk, micro}});
  reduce_after(chunk, micro);
}

void RuntimeActions::input_backward(std::int64_t chunk) {
  const std::int64_t micro = of(chunk).inputs++;
  if (!is_run(micro)) return;
  to_.exchange({{What::output_gradient, chunk, micro}});
  to_.input_backward(chunk, micro);
  to_.exchange({{What::input_gradient, chunk, micro}});
}

void RuntimeActions::weight_backward(std::int64_t chunk) {
  const std::int64_t micro = of(chunk).weights++;
  if (!is_run(micro)) return;
  to_.weight_backward(chunk, micro);
  reduce_after(chunk, micro);
}

std::vector<PipelineAction> RuntimeActions::take(std::int64_t runs) {
  std::vector<PipelineAction> all = to_.take();
  for (std::size_t i = period_[0]; i < period_[1]; ++i) all[i].runs = runs;
  return all;
}

void RuntimeActions::reduce_after(std::int64_t chunk, std::int64_t micro) {
  if (micro + 1 == r_.micro_batches) to_.reduce(chunk);
}

}  // namespace ac_advisor::passes
