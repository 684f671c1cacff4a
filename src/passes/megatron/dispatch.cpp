// Megatron-core's MoELayer, and how tokens come to their experts and back (core_v0.16,
// transformer/moe/moe_layer.py, token_dispatcher.py, moe_utils.py): each rank gathers the tokens of
// all and takes those of its experts, or each sends every token to the ranks that have its experts.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// A collective of rows between the ranks that share experts; its backward is the other way round.
/// `buffered`: into the buffer that stays, as is its gradient.
ir::ValueId MegatronLayers::exchange(OpKind kind, V x, std::int64_t rows, bool buffered) {
  Shape s = shape(x);
  const Shape own = s;
  s.set(0, rows);
  const V y = buffered ? p_.on_storage_of(m_.memory_buffer, s, dtype(x), true) : plain(s, dtype(x));
  emit(kind, {x}, {y});
  const OpKind back = kind == OpKind::ep_all_gather       ? OpKind::ep_reduce_scatter
                      : kind == OpKind::ep_reduce_scatter ? OpKind::ep_all_gather
                                                          : OpKind::all_to_all;
  CompiledGraph g;
  if (buffered) {  // x, buffer, gradient
    g.made = {{own, dtype(x), 1}};
    g.launches = {{back, {}, leaf_, {2}, {3}}};
    g.results = {3, -1};
    return node(OpKind::autograd_function, {x, m_.memory_buffer}, y, std::move(g));
  }
  g.made = {{own, dtype(x), -1}};  // x, gradient
  g.launches = {{back, {}, leaf_, {1}, {2}}};
  g.results = {2};
  return node(OpKind::autograd_function, {x}, y, std::move(g));
}

/// The same by lists of each rank's rows (all-to-all's tensor-parallel ranks), which NCCL's process
/// group, as they are alike, has in one piece, too (ProcessGroupNCCL.cpp, newLikeFlat).
ir::ValueId MegatronLayers::exchange_lists(OpKind kind, V x, std::int64_t rows) {
  const Shape own = shape(x), made = with(own, 0, rows);
  const DType type = dtype(x);
  const bool gathers = kind == OpKind::ep_all_gather;
  const OpKind back = gathers ? OpKind::ep_reduce_scatter : OpKind::ep_all_gather;
  const V room = plain(made, type), piece = plain(gathers ? made : own, type);
  emit(OpKind::empty, {}, {room, piece});
  const V flat = in_place(gathers ? kind : OpKind::clone, piece, {x}),
          y = in_place(gathers ? OpKind::clone : kind, room, {flat});
  hold({x});
  CompiledGraph g;  // x, gradient, room for that of x, a piece, both as they are written
  g.made = {{own, type, -1}, {shape(flat), type, -1}, {shape(flat), type, 3}, {own, type, 2}};
  g.launches = {{OpKind::empty, {}, leaf_, {}, {2, 3}},
                {gathers ? OpKind::clone : back, {}, leaf_, {1}, {4}},
                {gathers ? back : OpKind::clone, {}, leaf_, {4}, {5}},
                {OpKind::hold, {}, leaf_, {1}, {}}};
  g.results = {5};
  return node(OpKind::autograd_function, {x}, y, std::move(g));
}

/// permute: rows by expert (index_select, which saves where they were), and their weights.
MegatronLayers::Permuted MegatronLayers::permute(V x, V weights, V chosen, std::int64_t rows,
                                                 std::int64_t experts) {
  leaf_ = Module::mlp;
  const std::int64_t tokens = shape(x)[0], h = spec_.hidden;
  const Shape all{tokens, 1, h}, by_expert{experts, tokens}, row{rows};
  const V mask = plain(by_expert, DType::u8), order = plain({tokens}, DType::i64),
          places = plain(row, DType::i64);
  emit(OpKind::clone, {chosen}, {mask});
  emit(OpKind::arange, {}, {order});
  emit(OpKind::index, {order, mask}, {places});
  const V of_expert = plain(by_expert, dtype(weights)),
          picked = plain({rows, 1, 1}, dtype(weights));
  emit(OpKind::clone, {weights}, {of_expert});
  emit(OpKind::index, {of_expert, mask}, {picked});
  const V moved = plain({rows, 1, h}, dtype_);
  emit(OpKind::index, {x, places}, {moved});
  hold({order, of_expert});

  CompiledGraph g;  // x, places, gradient
  g.made = {{all, dtype_, -1}};
  g.launches = {{OpKind::fill, ir::Number{}, leaf_, {}, {3}}};
  if (config_.runtime.deterministic) {  // index_put_ with a sorted copy of what it adds
    g.made.push_back({{rows, 1, h}, dtype_, -1});
    g.launches.push_back({OpKind::clone, {}, leaf_, {2}, {4}});
    g.launches.push_back({OpKind::index_add, {}, leaf_, {3, 1, 4}, {}});
  } else {
    g.launches.push_back({OpKind::index_add, {}, leaf_, {3, 1, 2}, {}});
  }
  g.results = {3, -1};
  CompiledGraph w;  // weights, mask, gradient
  w.made = {{by_expert, dtype(weights), -1}, {shape(weights), dtype(weights), -1}};
  w.launches = {{OpKind::index_put, {}, leaf_, {2, 1}, {3}}, {OpKind::clone, {}, leaf_, {3}, {4}}};
  w.results = {4, -1};
  const V of_weights = node(OpKind::autograd_function, {weights, mask}, picked, std::move(w));
  return {node(OpKind::autograd_function, {x, places}, moved, std::move(g)), of_weights, places};
}

/// unpermute: rows are added where their tokens stand. In deterministic mode by index_add_, which
/// saves what it adds and is an index_put_ with a sorted copy, into zeros that are made twice.
ir::ValueId MegatronLayers::unpermute(V rows, V places, std::int64_t tokens) {
  leaf_ = Module::mlp;
  const Shape all{tokens, 1, spec_.hidden};
  const bool deterministic = config_.runtime.deterministic;
  const V first = plain(all, dtype_);
  emit(OpKind::fill, {}, {first}, ir::Number{});
  V sum = first;
  if (deterministic) {
    sum = plain(all, dtype_);
    emit(OpKind::fill, {}, {sum}, ir::Number{});
    hold({first});
    const V sorted = plain(shape(rows), dtype_);
    emit(OpKind::clone, {rows}, {sorted});
    emit(OpKind::index_add, {sum, places, sorted}, {});
  } else {
    emit(OpKind::index_add, {sum, places, rows}, {});
  }
  CompiledGraph g;  // rows, places, gradient
  g.made = {{shape(rows), dtype_, -1}};
  g.launches = {{OpKind::index, {}, leaf_, {2, 1}, {3}}};
  if (deterministic) g.launches.push_back({OpKind::hold, {}, leaf_, {0}, {}});
  g.results = {3, -1};
  return node(OpKind::autograd_function, {rows, places}, sum, std::move(g));
}

/// `y` of `x` by a kernel that reads `places`, which are saved; its gradient by one more, or by one
/// that another tensor's gradient comes from: `launches` 0.
ir::ValueId MegatronLayers::by_places(V x, V places, V y, std::int32_t launches) {
  CompiledGraph g;  // x, places, gradient
  g.made = {{shape(x), dtype(x), -1}};
  g.launches = {{OpKind::generated, ir::Generated{launches}, leaf_, {2, 1}, {3}}};
  g.results = {3, -1};
  return node(OpKind::autograd_function, {x, places}, y, std::move(g));
}

/// moe_permute_with_probs of Transformer Engine (v2.14, pytorch/permutation.py, mask map): of each
/// token the rows and the experts that it goes to in 32 bits, which are saved, and one kernel for
/// rows and weights, as its backward.
MegatronLayers::Permuted MegatronLayers::permute_fused(V x, V weights, V chosen,
                                                       std::int64_t rows) {
  leaf_ = Module::mlp;
  constexpr std::int64_t block = 1024;
  const std::int64_t tokens = shape(x)[0], experts = shape(chosen)[1], h = spec_.hidden;
  const V places = plain({tokens, 2 * experts + 1}, DType::i32),
          sums = plain({experts, (tokens + block - 1) / block}, DType::i32);
  emit(OpKind::generated, {chosen}, {places, sums}, ir::Generated{3});
  const V moved = plain({rows, 1, h}, dtype_), picked = plain({rows, 1, 1}, dtype(weights));
  emit(OpKind::generated, {x, weights, places}, {moved, picked}, ir::Generated{});
  const V of_weights = by_places(weights, places, picked, 0);
  return {by_places(x, places, moved, 1), of_weights, places};
}

ir::ValueId MegatronLayers::unpermute_fused(V rows, V places, std::int64_t tokens) {
  leaf_ = Module::mlp;
  const V sum = plain({tokens, 1, spec_.hidden}, dtype_);
  emit(OpKind::generated, {rows, places}, {sum}, ir::Generated{});
  return by_places(rows, places, sum, 1);
}

/// sort_chunks_by_idxs: what came from each rank, in the order of experts, or back. `places`:
/// fused, by a row's number in 32 bits.
ir::ValueId MegatronLayers::reordered(V x, V places) {
  const V y = plain(shape(x), dtype(x));
  if (places != ir::no_id) {
    emit(OpKind::generated, {x, places}, {y}, ir::Generated{});
    return by_places(x, places, y, 1);
  }
  emit(OpKind::clone, {x}, {y});
  CompiledGraph g;
  g.made = {{shape(x), dtype(x), -1}};
  g.launches = {{OpKind::clone, {}, leaf_, {1}, {2}}};
  g.results = {2};
  return node(OpKind::autograd_function, {x}, y, std::move(g));
}

/// MoEAllGatherTokenDispatcher. What comes back is summed over ranks in the weights' dtype.
ir::ValueId MegatronLayers::by_all_gather(const Block& b, V x, const Routing& routing) {
  const std::int64_t ranks = config_.layout.expert_ranks(), own = shape(x)[0], all = own * ranks,
                     count = spec_.moe->experts, here = local_experts(),
                     rows = all * spec_.moe->top_k / config_.layout.ep;
  V chosen = routing.chosen, weights = routing.weights, tokens = x;
  if (ranks > 1) {
    chosen = plain({all, count}, DType::u8);
    emit(OpKind::ep_all_gather, {routing.chosen}, {chosen});
    weights = exchange(OpKind::ep_all_gather, weights, all);
    tokens = exchange(OpKind::ep_all_gather, x, all, true);
  }
  const V gathered = weights;
  if (here < count) {
    const V part = plain({all, here}, DType::u8), part_weights = plain({all, here}, dtype(weights));
    emit(OpKind::clone, {chosen}, {part});
    emit(OpKind::clone, {weights}, {part_weights});
    CompiledGraph g;
    g.made = {{{all, count}, dtype(weights), -1}};
    g.launches = {{OpKind::slice_backward, {}, leaf_, {1}, {2}}};
    g.results = {2};
    weights = node(OpKind::autograd_function, {weights}, part_weights, std::move(g));
    chosen = part;
  }
  const Permuted moved = permute(tokens, weights, chosen, rows, here);
  V y = experts(b, moved.rows, moved.weights);
  y = unpermute(y, moved.places, all);
  hold({moved.rows});
  if (ranks > 1) {
    const DType type = dtype(weights);
    if (type != dtype_) y = cast(y, type);
    y = exchange(OpKind::ep_reduce_scatter, y, own);
    if (type != dtype_) y = cast(y, dtype_);
  }
  hold({gathered, routing.chosen, moved.weights});
  return y;
}

/// MoEAlltoAllTokenDispatcher: the callers' variables hold what was sent and what came to the end.
ir::ValueId MegatronLayers::by_all_to_all(const Block& b, V x, const Routing& routing) {
  const std::int64_t own = shape(x)[0], sent = own * spec_.moe->top_k,
                     tp = config_.layout.expert_tp();
  const bool sends = config_.layout.ep > 1, sorts = local_experts() > 1,
             fused = spec_.moe->megatron->fused_permute;
  const Permuted moved =
      fused ? permute_fused(x, routing.weights, routing.chosen, sent)
            : permute(x, routing.weights, routing.chosen, sent, spec_.moe->experts);
  V rows = moved.rows, weights = moved.weights;
  if (sends) {
    rows = exchange(OpKind::all_to_all, rows, sent);
    weights = exchange(OpKind::all_to_all, weights, sent);
  }
  const V came = rows, came_weights = weights;
  if (tp > 1) {
    rows = exchange_lists(OpKind::ep_all_gather, rows, sent * tp);
    weights = exchange_lists(OpKind::ep_all_gather, weights, sent * tp);
  }
  const auto order = [&](V of) {  // make_chunk_sort_map
    if (!fused) return ir::no_id;
    const V places = plain({shape(of)[0]}, DType::i32);
    emit(OpKind::generated, {}, {places}, ir::Generated{});
    return places;
  };
  if (sorts) {
    const V places = order(rows);
    rows = reordered(rows, places);
    weights = reordered(weights, places);
  }
  const V made = experts(b, rows, weights);
  leaf_ = Module::mlp;
  V y = made;
  if (sorts) y = reordered(y, order(y));
  if (tp > 1) {
    const DType type = dtype(routing.weights);
    if (type != dtype_) y = cast(y, type);
    y = exchange_lists(OpKind::ep_reduce_scatter, y, sent);
    if (type != dtype_) y = cast(y, dtype_);
  }
  hold({made, rows, weights});
  if (sends) y = exchange(OpKind::all_to_all, y, sent);
  y = fused ? unpermute_fused(y, moved.places, own) : unpermute(y, moved.places, own);
  hold({moved.rows, moved.weights, came, came_weights, routing.weights, routing.chosen});
  return y;
}

/// .to(dtype), and its gradient back.
ir::ValueId MegatronLayers::cast(V x, DType type) {
  const V y = out(shape(x), type, true);
  emit(OpKind::cast, {x}, {y});
  return y;
}

ir::ValueId MegatronLayers::moe(const Block& b, V x) {
  V shared = ir::no_id;
  if (spec_.moe->shared_intermediate > 0) {
    const ir::OpId begin = next_op();
    shared = mlp(b, linear(x, b.up, Split::columns, first_of_mlp()));
    checkpoint(LayerPart::shared_experts, begin);
  }
  const Routing routing = route(b, x);
  leaf_ = Module::mlp;
  const Shape whole = shape(x);
  const V rows = p_.reshape(x, {whole[0] * whole[1], 1, whole[2]});
  V y = spec_.moe->megatron->all_to_all ? by_all_to_all(b, rows, routing)
                                        : by_all_gather(b, rows, routing);
  y = p_.reshape(y, whole);
  if (shared == ir::no_id) return y;
  leaf_ = Module::mlp;
  const V sum = bf16(whole);
  emit(OpKind::add, {y, shared}, {sum});
  hold({y, shared});
  return sum;
}

}  // namespace ac_advisor::passes
