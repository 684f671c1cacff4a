// Attention over a sequence that ranks share, within a compiled block: AOTAutograd traces through
// DTensor into PyTorch's ring (v2.11, torch/distributed/tensor/experimental/_context_parallel/
// _attention.py: _templated_ring_attention and its backward). Names are its own.
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

constexpr std::size_t tokens = 2;  ///< seq_dim

Shape flat_shape(const Shape& s) { return {s.numel()}; }
Shape half_of(Shape s) {
  s.set(tokens, s[tokens] / 2);
  return s;
}

}  // namespace

/// x.chunk(2, dim=2)[which]
NodeId Tracer::chunk_node(NodeId x, std::int64_t which) {
  const Shape part = half_of(node(x).shape);
  const DType type = node(x).dtype;
  const NodeId all =
      emit(Target::split, {x}, node(x).shape, type, part[tokens], static_cast<double>(tokens + 1));
  graph_.node(all).has_tensor = false;
  const NodeId y = emit(Target::getitem, {all}, part, type, which);
  graph_.node(y).swapped = node(x).swapped;
  return y;
}

NodeId Tracer::contiguous_node(NodeId x) {
  if (!node(x).swapped || node(x).shape[1] == 1) return x;
  const NodeId y = like(Target::clone, {x}, x);
  graph_.node(y).swapped = false;
  return y;
}

/// _partial_update: a chunk is added to, or replaced.
NodeId Tracer::updated_chunk(NodeId whole, NodeId part, std::int64_t which, bool add) {
  NodeId chunks[] = {chunk_node(whole, 0), chunk_node(whole, 1)};
  chunks[which] = add ? binary(Target::add, chunks[which], part) : part;
  return emit(Target::cat, {chunks[0], chunks[1]}, node(whole).shape, node(whole).dtype, 0,
              static_cast<double>(tokens + 1));
}

/// torch.cat([key.flatten(), value.flatten()])
NodeId Tracer::joined_flat(NodeId key, NodeId value) {
  const Shape part = flat_shape(node(key).shape);
  const NodeId k = view_node(contiguous_node(key), part),
               v = view_node(contiguous_node(value), part);
  return emit(Target::cat, {k, v}, {2 * part[0]}, node(key).dtype);
}
NodeId Tracer::part_of_flat(NodeId flat, std::int64_t start, const Shape& shape) {
  const NodeId part = emit(Target::slice, {flat}, flat_shape(shape), node(flat).dtype, start);
  return view_node(part, shape);
}

Tracer::Attended Tracer::attend(NodeId q, NodeId k, NodeId v, const Ring& ring) {
  const Shape s = node(q).shape;
  const NodeId all = emit(ring.cudnn ? Target::sdpa_cudnn : Target::sdpa_flash, {q, k, v}, s,
                          node(q).dtype, static_cast<std::int64_t>(ring.kernel), ring.scale);
  graph_.node(all).has_tensor = false;
  graph_.node(all).swapped = node(q).swapped;
  const Shape rows = ring.cudnn ? Shape{s[0], s[1], s[2], 1} : Shape{s[0], s[1], s[2]};
  Attended made{emit(Target::getitem, {all}, s, node(q).dtype, 0),
                emit(Target::getitem, {all}, rows, DType::f32, 1),
                emit(Target::getitem, {all}, ring.cudnn ? Shape{} : Shape{2}, DType::i64, 6),
                emit(Target::getitem, {all}, Shape{}, DType::i64, 7)};
  graph_.node(made.out).swapped = node(q).swapped;
  graph_.node(made.log_sum).swapped = false;
  made.log_sum = view_node(made.log_sum, {s[0], s[1], s[2], 1});
  return made;
}

/// _SDPAMerger._merge_one
void Tracer::merge(Attended& sum, const Attended& block, bool partial) {
  const NodeId wide = convert_node(block.out, DType::f32),
               old = partial ? chunk_node(sum.out, 1) : sum.out,
               old_log = partial ? chunk_node(sum.log_sum, 1) : sum.log_sum;
  const auto minus = [&](NodeId a, NodeId b) { return binary(Target::sub, a, b); };
  const NodeId ahead = minus(block.log_sum, old_log);
  const NodeId share = like(Target::sigmoid, {ahead}, ahead);
  const NodeId out = minus(old, binary(Target::mul, share, minus(old, wide)));
  const NodeId behind = minus(old_log, block.log_sum);  // log_sigmoid_forward
  const NodeId down = like(Target::neg, {like(Target::abs, {behind}, behind)}, behind);
  const NodeId rest = like(Target::log1p, {like(Target::exp, {down}, down)}, down);
  const NodeId log_sigmoid = minus(like(Target::minimum, {behind}, behind), rest);
  const NodeId log_sum = minus(old_log, log_sigmoid);
  sum.out = partial ? updated_chunk(sum.out, out, 1, false) : out;
  sum.log_sum = partial ? updated_chunk(sum.log_sum, log_sum, 1, false) : log_sum;
}

Tensor Tracer::ring_attention(Tensor q, Tensor k, Tensor v, const Ring& ring) {
  const std::int32_t region = region_;
  if (ring.by_policy) region_ = -1;  // it has the op that is the ring, and tags none of its parts
  const Shape keys = shape(k);
  const std::int64_t part = keys.numel();
  const NodeId key = contiguous_node(k.node), value = contiguous_node(v.node);
  const NodeId all =
      collective(Target::all_gather, joined_flat(key, value), {2 * part * ring.ranks});
  std::vector<std::array<NodeId, 2>> seen{{key, value}};
  for (std::int64_t i = 1; i < ring.ranks; ++i) {
    const std::int64_t at = (ring.rank + ring.ranks - i) % ring.ranks * 2 * part;
    std::array<NodeId, 2> pair{part_of_flat(all, at, keys), part_of_flat(all, at + part, keys)};
    if (i <= ring.rank)
      for (NodeId& one : pair) one = chunk_node(one, 0);
    seen.push_back(pair);
  }
  Attended sum, last;
  for (std::int64_t i = 0; i < ring.ranks; ++i) {
    const bool partial = i > ring.rank;
    last = attend(partial ? chunk_node(q.node, 1) : q.node, seen[static_cast<std::size_t>(i)][0],
                  seen[static_cast<std::size_t>(i)][1], ring);
    if (i == 0)
      sum = {convert_node(last.out, DType::f32), last.log_sum, -1, -1};
    else
      merge(sum, last, partial);
  }
  last.out = convert_node(sum.out, dtype(q));
  const Shape rows = shape(q);  // flash attention's have no last dimension
  last.log_sum = ring.cudnn ? sum.log_sum : view_node(sum.log_sum, {rows[0], rows[1], rows[2]});
  region_ = region;
  const bool trained = q.requires_grad || k.requires_grad || v.requires_grad;
  return made(last.out, trained, [=, this](NodeId g) {
    const std::array<NodeId, 3> grads = ring_backward(g, q.node, seen, last, ring);
    give(v, grads[2]);
    give(k, grads[1]);
    give(q, grads[0]);
  });
}

Tensor Tracer::rows_of_table(Tensor table, Tensor positions, const Shape& shape, bool complex) {
  const Target target = complex ? Target::complex_rows : Target::index;
  return made(emit(target, {table.node, positions.node}, shape, dtype(table)), false, {});
}

/// The gradients of queries, of one step's keys and of its values.
std::array<NodeId, 3> Tracer::attend_backward(NodeId g, NodeId q, const std::array<NodeId, 2>& kv,
                                              const Attended& of, const Ring& ring) {
  const NodeId all =
      emit(ring.cudnn ? Target::sdpa_cudnn_backward : Target::sdpa_flash_backward,
           {g, q, kv[0], kv[1], of.out, of.log_sum, of.seed, of.offset}, node(q).shape,
           node(q).dtype, static_cast<std::int64_t>(ring.kernel), ring.scale);
  graph_.node(all).has_tensor = false;
  std::array<NodeId, 3> parts{q, kv[0], kv[1]};
  std::int64_t index = 0;
  for (NodeId& n : parts) {
    const NodeId like_it = n;
    n = emit(Target::getitem, {all}, node(like_it).shape, node(like_it).dtype, index++);
    graph_.node(n).swapped = node(like_it).swapped;
  }
  return parts;
}

/// grad_key += grad_key_, of views of what has come: functionalization scatters into all of it.
NodeId Tracer::added_in_place(NodeId flat, NodeId gk, NodeId gv) {
  const Shape keys = node(gk).shape, whole = node(flat).shape;
  std::int64_t start = 0;
  for (NodeId more : {gk, gv}) {
    const NodeId sum = binary(Target::add, part_of_flat(flat, start, keys), more);
    flat = emit(Target::slice_scatter, {flat, view_node(contiguous_node(sum), flat_shape(keys))},
                whole, node(flat).dtype, start);
    start += keys.numel();
  }
  return flat;
}

std::array<NodeId, 3> Tracer::ring_backward(NodeId g, NodeId q,
                                            const std::vector<std::array<NodeId, 2>>& seen,
                                            const Attended& whole, const Ring& ring) {
  const Shape keys = node(seen[0][0]).shape;
  const std::int64_t part = keys.numel();
  const DType type = node(q).dtype;
  const NodeId zeros = emit(Target::full, {}, keys, DType::f32);
  NodeId grad_q = emit(Target::full, {}, node(q).shape, DType::f32), arrived = -1;
  for (std::int64_t i = 0; i < ring.ranks; ++i) {
    const bool partial = i > ring.rank;
    Attended of = whole;
    if (partial) {
      const NodeId rows = chunk_node(whole.log_sum, 1);
      of.out = chunk_node(whole.out, 1), of.log_sum = like(Target::clone, {rows}, rows);
    }
    const auto [gq, gk, gv] =
        attend_backward(partial ? chunk_node(g, 1) : g, partial ? chunk_node(q, 1) : q,
                        seen[static_cast<std::size_t>(i)], of, ring);
    std::array<NodeId, 2> sums{zeros, zeros};
    if (partial) arrived = added_in_place(arrived, gk, gv);
    if (i > 0) sums = {part_of_flat(arrived, 0, keys), part_of_flat(arrived, part, keys)};
    const std::array<NodeId, 2> added{gk, gv};
    for (std::size_t j = 0; j < 2 && !partial; ++j)
      sums[j] = i > 0 ? updated_chunk(sums[j], added[j], 0, true)
                      : binary(Target::add, sums[j], added[j]);
    arrived = collective(Target::all_to_all, joined_flat(sums[0], sums[1]), {2 * part});
    grad_q = partial ? updated_chunk(grad_q, gq, 1, true) : binary(Target::add, grad_q, gq);
  }
  const NodeId home = convert_node(arrived, type);
  return {convert_node(grad_q, type), part_of_flat(home, 0, keys), part_of_flat(home, part, keys)};
}

}  // namespace ac_advisor::passes::compile
