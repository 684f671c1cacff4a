// Attention whose scores are computed op by op: products of each head's matrices
// (transformers 5.23: eager_attention_forward).
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

Shape with_rows_as_columns(Shape shape) {
  const std::size_t last = shape.rank() - 1;
  const std::int64_t columns = shape[last];
  shape.set(last, shape[last - 1]);
  shape.set(last - 1, columns);
  return shape;
}

}  // namespace

NodeId Tracer::turned_node(NodeId x) {
  const bool swapped = node(x).swapped;
  const NodeId y = emit(Target::permute, {x}, with_rows_as_columns(node(x).shape), node(x).dtype,
                        node(x).shape.rank() == 4 ? permuted::rows : permuted::batched_rows);
  graph_.node(y).swapped = swapped;
  return y;
}

Tensor Tracer::turned(Tensor x) {
  return made(turned_node(x.node), x.requires_grad,
              [=, this](NodeId g) { give(x, turned_node(g)); });
}

/// Batch and heads as one dimension: torch.matmul expands both operands, and reshapes them, which
/// copies what has tokens before heads (aten/src/ATen/native/LinearAlgebra.cpp, v2.11).
NodeId Tracer::folded_node(NodeId x, bool expanded) {
  const Shape s = node(x).shape;
  const bool swapped = node(x).swapped;
  if (expanded) {
    x = emit(Target::expand, {x}, s, node(x).dtype);
    graph_.node(x).swapped = swapped;
  }
  if (swapped && s[0] > 1) x = like(Target::clone, {x}, x);
  return emit(Target::view, {x}, {s[0] * s[1], s[2], s[3]}, node(x).dtype);
}

/// [B, H, M, K] by [B, H, K, N]. bmm's backward makes the second operand's gradient first.
Tensor Tracer::matmul(Tensor a, Tensor b, bool keep) {
  const Shape left = shape(a), right = shape(b);
  const NodeId x = folded_node(a.node, true), y = folded_node(b.node, true);
  const Shape folded{left[0] * left[1], left[2], right[3]},
      apart{left[0], left[1], left[2], right[3]};
  const auto product = [this](NodeId p, NodeId q) {
    const Shape s = node(p).shape;
    return emit(Target::mm, {p, q}, {s[0], s[1], node(q).shape[2]}, node(p).dtype);
  };
  const NodeId result = product(x, y);
  if (keep) keep_node(result);
  const NodeId out = emit(Target::view, {result}, apart, node(result).dtype);
  return made(out, a.requires_grad || b.requires_grad, [=, this](NodeId g) {
    const NodeId flat = node(g).target == Target::view && node(node(g).inputs[0]).shape == folded
                            ? node(g).inputs[0]
                            : folded_node(g, false);
    const NodeId of_b = b.requires_grad ? product(turned_node(x), flat) : -1;
    const NodeId of_a = a.requires_grad ? product(flat, turned_node(y)) : -1;
    if (of_b >= 0) give(b, emit(Target::view, {of_b}, right, node(of_b).dtype));
    if (of_a >= 0) give(a, emit(Target::view, {of_a}, left, node(of_a).dtype));
  });
}

}  // namespace ac_advisor::passes::compile
