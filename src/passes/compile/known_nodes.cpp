#include "known_nodes.hpp"

#include <algorithm>
#include <utility>

#include "bits_of.hpp"

namespace ac_advisor::passes::compile {
namespace {

std::size_t hash_of(Target target, const NodeList& inputs, const ir::Shape& shape, DType dtype,
                    std::int64_t index, double number) {
  std::uint64_t hash = static_cast<std::uint64_t>(target) << 8U | static_cast<std::uint64_t>(dtype);
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32U;
  };
  for (NodeId in : inputs) mix(static_cast<std::uint64_t>(in));
  for (std::int64_t size : shape.sizes()) mix(static_cast<std::uint64_t>(size));
  mix(static_cast<std::uint64_t>(index));
  mix(bits_of(number + 0.0));  // -0 as 0
  return static_cast<std::size_t>(hash);
}

bool same(const Node& a, Target target, const NodeList& inputs, const ir::Shape& shape, DType dtype,
          std::int64_t index, double number) {
  return a.target == target && a.dtype == dtype && a.index == index && a.number == number &&
         a.shape == shape &&
         std::equal(a.inputs.begin(), a.inputs.end(), inputs.begin(), inputs.end());
}

}  // namespace

void KnownNodes::grow(const JointGraph& graph) {
  const std::vector<NodeId> old =
      std::exchange(table_, std::vector<NodeId>(std::max<std::size_t>(256, 2 * table_.size()), -1));
  for (NodeId n : old) {
    if (n < 0) continue;
    const Node& node = graph.node(n);
    std::size_t at =
        hash_of(node.target, node.inputs, node.shape, node.dtype, node.index, node.number);
    while (table_[at &= table_.size() - 1] >= 0) ++at;
    table_[at] = n;
  }
}

NodeId& KnownNodes::find(const JointGraph& graph, Target target, const NodeList& inputs,
                         const ir::Shape& shape, DType dtype, std::int64_t index, double number) {
  if (2 * (count_ + 1) > table_.size()) grow(graph);
  std::size_t at = hash_of(target, inputs, shape, dtype, index, number);
  for (;; ++at) {
    NodeId& known = table_[at &= table_.size() - 1];
    if (known >= 0 && !same(graph.node(known), target, inputs, shape, dtype, index, number))
      continue;
    if (known < 0) ++count_;
    return known;
  }
}

}  // namespace ac_advisor::passes::compile
