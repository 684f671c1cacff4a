#include "tokens.hpp"

namespace ac_advisor::passes::compile {
namespace {

using ir::Shape;

/// Of a view of `from`, whose tokens lie along `tokens`.
std::int8_t of_view(const Shape& from, std::int8_t tokens, const Shape& to) {
  if (tokens < 0) return -1;
  if (to.rank() == 2) return 0;
  const bool dropped_head = tokens == 2 && to.rank() < from.rank();
  return tokens == 2 && !dropped_head ? std::int8_t{2} : std::int8_t{1};
}

std::int8_t of_permuted(const Shape& shape, std::int8_t tokens) {
  if (shape.rank() == 2) return -1;  // a matrix for a product
  return tokens == 1 ? std::int8_t{2} : tokens == 2 ? std::int8_t{1} : tokens;
}

/// Of the first operand that has tokens.
std::int8_t of_inputs(const JointGraph& graph, const Node& node) {
  for (NodeId in : node.inputs)
    if (graph.node(in).tokens >= 0) return graph.node(in).tokens;
  return -1;
}

std::int8_t of(const JointGraph& graph, const Node& node) {
  const auto in = [&](std::size_t i) -> const Node& { return graph.node(node.inputs[i]); };
  switch (node.target) {
    case Target::placeholder:
    case Target::tangent:
      return !node.parameter && node.shape.rank() == 3 ? std::int8_t{1} : std::int8_t{-1};
    case Target::view:
      return of_view(in(0).shape, in(0).tokens, node.shape);
    case Target::permute:
      return of_permuted(node.shape, in(0).tokens);
    case Target::unsqueeze:
      return in(0).tokens == 1 && node.shape[1] == 1 ? std::int8_t{2} : in(0).tokens;
    case Target::mm:
      return in(0).tokens;  // a transposed matrix has none: the product is a weight's gradient
    case Target::addmm:
      return in(1).tokens;
    case Target::sum:
      return node.shape.back() == 1 ? in(0).tokens : std::int8_t{-1};
    case Target::getitem:
      return node.shape.rank() < 3 && in(0).tokens != 0 ? std::int8_t{-1} : in(0).tokens;
    default:
      return of_inputs(graph, node);
  }
}

}  // namespace

void mark_tokens(JointGraph& graph) {
  for (Node& node : graph.nodes) node.tokens = of(graph, node);
}

}  // namespace ac_advisor::passes::compile
