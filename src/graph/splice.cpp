#include "splice.hpp"

#include <algorithm>

namespace ac_advisor::graph {

MicroBatch spliced(const MicroBatch& micro, const std::vector<Run>& runs) {
  MicroBatch made;
  made.outputs = micro.outputs;
  made.loss = micro.loss;
  made.ops.reserve(micro.ops.size());
  Indices moved;  // by op: where what stands for it is
  moved.reserve(micro.ops.size());
  const auto keep_until = [&](std::size_t end) {
    while (moved.size() < end) {
      const Op& op = micro.ops[moved.size()];
      moved.push_back(static_cast<Index>(made.ops.size()));
      made.ops.push_back(op);
      Index& forward = made.ops.back().forward;
      if (forward >= 0) forward = moved[static_cast<std::size_t>(forward)];
    }
  };
  for (const Run& run : runs) {
    keep_until(static_cast<std::size_t>(run.at));
    made.ops.insert(made.ops.end(), run.ops.begin(), run.ops.end());
    const auto last = static_cast<Index>(std::max<std::size_t>(1, made.ops.size()) - 1);
    moved.insert(moved.end(), static_cast<std::size_t>(run.count), last);
  }
  keep_until(micro.ops.size());
  for (Gradient gradient : micro.gradients) {
    gradient.whole = moved[static_cast<std::size_t>(gradient.whole)];
    made.gradients.push_back(gradient);
  }
  return made;
}

}  // namespace ac_advisor::graph
