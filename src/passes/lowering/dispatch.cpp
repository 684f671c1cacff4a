// transformers v5.23, distributed/expert_parallel.py, AllToAllEP: each (token, expert) pair goes to
// the rank that has its expert, by an all-to-all, and what came of it back by a second one. Each
// rank has a contiguous range of the experts; loads are balanced, so as many rows come as go.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// all_to_all_single_autograd: a new tensor, whose gradient goes the other way.
ir::ValueId Lowering::all_to_all(V rows) {
  const V y = out(shape(rows), dtype(rows), grad(rows));
  emit(OpKind::all_to_all, {rows}, {y});
  return y;
}

/// torch.stack of the rows that go to each rank and come from it, .tolist(): the host waits.
void Lowering::host_counts(V sent, V received) {
  const std::int64_t ranks = config_.layout.ep;
  const V going = make_int(OpKind::sum, {ranks, 1}, DType::i64, {sent}),
          coming = make_int(OpKind::sum, {ranks, 1}, DType::i64, {received});
  const V sizes = make_int(OpKind::cat, {2 * ranks, 1}, DType::i64, {going, coming});
  hold({going, coming});
  emit(OpKind::host_read, {sizes}, {});
}

/// arange(local).repeat(ranks).repeat_interleave(counts): the local expert of each row that came.
ir::ValueId Lowering::local_ids(V counts, std::int64_t rows) {
  const std::int64_t count = local_experts(), all = spec_.moe->experts;
  const auto made = [&](OpKind kind, const Shape& size, std::initializer_list<V> in) {
    return make_int(kind, size, DType::i64, in);
  };
  const V own = made(OpKind::arange, {count}, {});
  const V repeated = made(OpKind::clone, {config_.layout.ep, count}, {p_.reshape(own, {1, count})});
  const V flat = p_.reshape(counts, {all}), of_each = p_.reshape(repeated, {all});
  const V sums = made(OpKind::cumsum, {all}, {flat});
  const V places = made(OpKind::repeat_interleave, {rows}, {flat, sums});
  const V ids = made(OpKind::index, {rows}, {of_each, places});
  return p_.reshape(ids, {rows, 1});
}

ir::ValueId Lowering::dispatched_experts(const Block& b, V flat, const Routed& routed) {
  const std::int64_t tokens = shape(flat)[0], k = spec_.moe->top_k, rows = tokens * k,
                     all = spec_.moe->experts;
  const Shape sends{config_.layout.ep, local_experts()};
  const DType type = dtype(flat);
  V weights = routed.weights;
  // FSDPState._pre_forward, cast_forward_inputs: before the experts' unit is gathered
  if (config_.precision.param_dtype != config_.precision.compute_dtype ||
      config_.precision.reduce_dtype != config_.precision.compute_dtype)
    weights = cast(weights, config_.precision.compute_dtype);

  // _dispatch_tokens
  leaf_ = Module::experts;
  const V ids = p_.reshape(routed.experts, {rows});
  const V values = out({rows}, DType::i64, false), order = out({rows}, DType::i64, false);
  emit(OpKind::sort, {ids}, {values, order});  // argsort
  const V source = make_int(OpKind::floor_divide, {rows}, DType::i64, {order},
                            ir::FloorDivide{static_cast<std::int32_t>(k)});
  const V sent = out({rows, spec_.hidden}, type, true);
  emit(OpKind::index, {flat, source}, {sent});
  const V zeros = make_int(OpKind::fill, {all}, DType::i64, {}, ir::Number{0});
  const V ones = make_int(OpKind::fill, {rows}, DType::i64, {}, ir::Number{1});
  const V counts = p_.on_storage_of(zeros, {all}, DType::i64, true);
  emit(OpKind::index_add, {zeros, ids, ones}, {counts});  // scatter_add_
  const V sent_counts = p_.reshape(counts, sends);
  const V received_counts = make_int(OpKind::all_to_all, sends, DType::i64, {sent_counts});
  host_counts(sent_counts, received_counts);
  const V received = all_to_all(sent);
  const V local = local_ids(received_counts, rows);
  const V unit = make_int(OpKind::fill, {rows, 1}, type, {}, ir::Number{1});
  hold({sent, counts, received_counts});

  const V made = sorted_experts(b, received, local, unit, {});

  // _combine_tokens
  const V returned = all_to_all(made);
  const V places = out({rows, spec_.hidden}, type, false);
  emit(OpKind::empty, {}, {places});
  const V in_order = p_.on_storage_of(places, {rows, spec_.hidden}, type, true);
  p_.value(in_order).requires_grad = true;
  emit(OpKind::index_put, {places, order, returned}, {in_order});
  const V weighted = binary(OpKind::mul, p_.reshape(in_order, {tokens, k, spec_.hidden}),
                            p_.reshape(weights, {tokens, k, 1}));
  const V combined = out({tokens, spec_.hidden}, dtype(weighted), true);
  emit(OpKind::sum, {weighted}, {combined}, ir::Sum{ir::SumOver::choices});
  hold({returned, in_order});
  hold({received, local, unit, order, made, weights});
  return cast(combined, type);
}

}  // namespace ac_advisor::passes
