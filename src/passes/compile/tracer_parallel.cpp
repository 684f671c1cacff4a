// Collectives of DTensor within a compiled block, as AOTAutograd traces through it (PyTorch v2.11:
// torch/distributed/tensor/_redistribute.py, _collective_utils.py; torch/distributed/
// _functional_collectives.py). Each is followed by the wait for it, and the partitioner never
// recomputes either but in a checkpoint (_functorch/partitioners.py: force_save_collectives).
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

Shape with(Shape shape, std::size_t dim, std::int64_t size) {
  shape.set(dim, size);
  return shape;
}

}  // namespace

/// `keep`: --ac selective has the collective's result, and the wait for it is computed again.
NodeId Tracer::collective(Target target, NodeId x, const Shape& shape, bool keep) {
  const NodeId begun = emit(target, {x}, shape, node(x).dtype);
  const NodeId done = emit(Target::wait, {begun}, shape, node(x).dtype);
  if (keep) keep_node(begun);
  for (NodeId n : {begun, done})
    if (!node(n).recomputed) keep_node(n);
  keep_float8_scale(x, done);
  return done;
}

/// Of what is the same in another place.
void Tracer::keep_float8_scale(NodeId from, NodeId to) {
  if (const auto scale = float8_scales_.find(from); scale != float8_scales_.end())
    float8_scales_[to] = scale->second;
}

/// chunk along `from`, cat along `to`: a split, its parts, and what joins them.
NodeId Tracer::joined_parts(NodeId x, std::int64_t ranks, std::size_t from, std::size_t to) {
  const Shape whole = node(x).shape;
  const DType type = node(x).dtype;
  const Shape part = with(whole, from, whole[from] / ranks);
  const auto along = static_cast<double>(from + 1);
  const NodeId all = emit(Target::split, {x}, whole, type, part[from], along);
  graph_.node(all).has_tensor = false;
  std::vector<NodeId> each;
  for (std::int64_t i = 0; i < ranks; ++i)
    each.push_back(emit(Target::getitem, {all}, part, type, i));
  // torch/_utils.py: what is in fp8 is joined as bytes.
  const DType joined = type == DType::f8 ? DType::u8 : type;
  NodeList parts;
  for (NodeId n : each) parts.push_back(joined == type ? n : emit(Target::view, {n}, part, joined));
  const Shape together = with(part, to, part[to] * ranks);
  const NodeId y = emit(Target::cat, parts, together, joined, 0, static_cast<double>(to + 1));
  return joined == type ? y : emit(Target::view, {y}, together, type);
}

/// torch/_utils.py: _maybe_view_chunk_cat
NodeId Tracer::together_node(NodeId x, std::int64_t ranks) {
  const Shape s = node(x).shape;
  const NodeId y =
      s[0] == ranks ? view_node(x, {1, ranks * s[1], s[2]}) : joined_parts(x, ranks, 0, 1);
  keep_float8_scale(x, y);
  return y;
}

/// reduce_scatter_tensor: chunk along the tokens, cat, of one sequence too.
NodeId Tracer::apart_node(NodeId x, std::int64_t ranks) { return joined_parts(x, ranks, 1, 0); }

Tensor Tracer::all_gather(Tensor x, std::int64_t ranks) {
  const Shape part = shape(x);
  const NodeId y = collective(Target::all_gather, x.node, with(part, 0, part[0] * ranks));
  return made(y, x.requires_grad,
              [=, this](NodeId g) { give(x, collective(Target::reduce_scatter, g, part)); });
}

Tensor Tracer::reduce_scatter(Tensor x, std::int64_t ranks, bool keep) {
  const Shape whole = shape(x);
  const NodeId y =
      collective(Target::reduce_scatter, x.node, with(whole, 0, whole[0] / ranks), keep);
  return made(y, x.requires_grad,
              [=, this](NodeId g) { give(x, collective(Target::all_gather, g, whole)); });
}

Tensor Tracer::tokens_together(Tensor x, std::int64_t ranks) {
  return made(together_node(x.node, ranks), x.requires_grad,
              [=, this](NodeId g) { give(x, apart_node(g, ranks)); });
}

Tensor Tracer::tokens_apart(Tensor x, std::int64_t ranks) {
  return made(apart_node(x.node, ranks), x.requires_grad,
              [=, this](NodeId g) { give(x, together_node(g, ranks)); });
}

/// An AsyncCollectiveTensor is waited for within the graph that is given it.
Tensor Tracer::wait(Tensor x) {
  const NodeId y = emit(Target::wait, {x.node}, shape(x), dtype(x));
  if (!node(y).recomputed) keep_node(y);
  return made(y, x.requires_grad, [=, this](NodeId g) { give(x, g); });
}

}  // namespace ac_advisor::passes::compile
