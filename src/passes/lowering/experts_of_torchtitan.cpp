// TorchTitan v0.2.2's mixture of experts, models/moe/moe.py, utils.py and kernels.py: three weights
// an expert, grouped_mm over rows that are padded so that each expert's are a multiple of eight,
// and scores that multiply in fp32 what came of them. With --ep its ExpertParallel
// (distributed/expert_parallel.py): rows go to the rank that has their expert, and back. Loads are
// balanced, so as many rows come as go.
#include <limits>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

namespace {

constexpr std::int64_t row_alignment = 8;  // TOKEN_GROUP_ALIGN_SIZE_M

}  // namespace

/// MoE.__init__: its buffers are in fp32, whatever the parameters are in.
void Lowering::declare_padded_experts(Block& b) {
  const auto& moe = *spec_.moe;
  const auto weight = [&](std::int64_t out, std::int64_t in) {
    const V v = parameter({local_experts(), out, in}, Module::experts);
    s_.parameters.back().expert = config_.layout.ep > 1;
    return v;
  };
  const std::int64_t wide = part(moe.intermediate);
  b.experts_gate = weight(wide, spec_.hidden);
  b.experts_down = weight(spec_.hidden, wide);
  b.experts_up = weight(wide, spec_.hidden);
  b.router = parameter({moe.experts, spec_.hidden}, Module::router);
  for (V* buffer : {&b.score_correction, &b.tokens_per_expert}) {
    *buffer = p_.make({moe.experts}, DType::f32, ir::Role::buffer, at(Module::router));
    s_.buffers.push_back(*buffer);
  }
}

/// Tokens of each expert, (experts).
ir::ValueId Lowering::counted_tokens(V experts) {
  const std::int64_t all = spec_.moe->experts;
  return make_int(OpKind::histc, {all}, DType::i64, {p_.reshape(experts, {shape(experts).numel()})},
                  ir::Histc{static_cast<std::int32_t>(all)});
}

/// TokenChoiceTopKRouter.forward: the choice is made of corrected scores, the weights, (tokens, top
/// k) in fp32, of the scores themselves.
Lowering::Routed Lowering::corrected_softmax_router(const Block& b, V flat) {
  const auto& moe = *spec_.moe;
  leaf_ = Module::router;
  const V logits = linear(flat, {b.router, ir::no_id});
  const V scores = unary(OpKind::softmax, cast(logits, DType::f32));
  hold({logits});  // until `scores` is bound anew
  const V choice = make_int(OpKind::add, shape(scores), DType::f32, {scores, b.score_correction});
  const Shape size{shape(flat)[0], moe.top_k};
  const V values = out(size, DType::f32, false), experts = out(size, DType::i64, false);
  ir::TopK best{static_cast<std::int32_t>(moe.top_k)};
  best.sorted = false;
  emit(OpKind::topk, {choice}, {values, experts}, best);
  V weights = out(size, DType::f32, grad(scores));
  emit(OpKind::gather, {scores, experts}, {weights});
  V total = ir::no_id;
  if (moe.normalize_top_k) {
    const V sum = out({size[0], 1}, DType::f32, grad(weights));
    emit(OpKind::sum, {weights}, {sum});
    total = unary(OpKind::add_scalar, sum, ir::Number{1e-20});
    weights = binary(OpKind::div, weights, total);
  }
  weights = unary(OpKind::mul_scalar, weights, ir::Number{1.0});
  const V counts = counted_tokens(experts);
  hold({scores, choice, values, total});
  return {logits, weights, experts, {counts}};
}

/// generate_permute_indices: where each row goes among the padded ones, int32, and how many of them
/// each expert has. `counts`: of this rank's experts, from each rank in turn.
std::pair<ir::ValueId, ir::ValueId> Lowering::padded_places(V counts, std::int64_t padded) {
  const Shape given = shape(counts), each{local_experts()};
  const auto made = [&](OpKind kind, std::initializer_list<V> in,
                        const ir::Attributes& attributes = {}) {
    return make_int(kind, each, DType::i64, in, attributes);
  };
  const auto narrow = [&](V x) { return make_int(OpKind::cast, each, DType::i32, {x}); };
  const V sums = make_int(OpKind::cumsum, given, DType::i64, {counts});
  const V starts = make_int(OpKind::add, given, DType::i64, {sums, counts}, ir::Add{-1.0});
  const V of_ranks = made(OpKind::sum, {p_.reshape(counts, {given[0] / each[0], each[0]})});
  const V least =
      made(OpKind::clamp, {of_ranks},
           ir::Clamp{static_cast<double>(row_alignment), std::numeric_limits<double>::infinity()});
  const V more = made(OpKind::add_scalar, {least}, ir::Number{row_alignment});
  const V up = made(OpKind::add_scalar, {more}, ir::Number{-1});
  const V groups = made(OpKind::floor_divide, {up}, ir::FloorDivide{row_alignment});
  const V sizes = narrow(made(OpKind::mul_scalar, {groups}, ir::Number{row_alignment}));
  const V ends = made(OpKind::cumsum, {made(OpKind::cast, {sizes})});
  const V begins = made(OpKind::add, {ends, sizes}, ir::Add{-1.0});
  const V places = make_int(OpKind::fill, {padded}, DType::i32, {}, ir::Number{-1});
  emit(OpKind::generated, {counts, starts, begins, places}, {}, ir::Generated{});
  narrow(ends);
  return {places, sizes};
}

/// _permute: rows in the order of their experts, with rows of zeros in between.
Lowering::PaddedRows Lowering::padded_rows(V rows_of, V counts) {
  const Shape size = shape(rows_of);
  const std::int64_t rows = size[0], h = size[1];
  const std::int64_t padded =
      (rows + local_experts() * row_alignment + row_alignment - 1) / row_alignment * row_alignment;
  const DType type = dtype(rows_of);
  const auto [places, sizes] = padded_places(counts, padded);
  const V zeros = make_int(OpKind::fill, {h}, type, {});
  const V stacked = out({rows + 1, h}, type, true);
  emit(OpKind::cat, {rows_of, p_.reshape(zeros, {1, h})}, {stacked});
  const V in_groups = out({padded, h}, type, true);
  emit(OpKind::index, {stacked, places}, {in_groups});
  hold({stacked, zeros});
  return {in_groups, places, sizes};
}

/// _run_experts_grouped_mm
ir::ValueId Lowering::grouped_products(const Block& b, const PaddedRows& x) {
  const V offsets = make_int(OpKind::cumsum, {local_experts()}, DType::i32, {x.sizes});
  V biases = ir::no_id;
  const auto product = [&](V rows, V weight) {
    return expert_product(rows, weight, ir::no_id, ir::no_id, offsets, biases);
  };
  const V gate = unary(OpKind::silu, product(x.rows, b.experts_gate));
  const V both = binary(OpKind::mul, gate, product(x.rows, b.experts_up));
  const V made = product(both, b.experts_down);
  hold({both, offsets});
  return made;
}

/// _unpermute: back in the order of `like`.
ir::ValueId Lowering::unpadded_rows(V made, V places, Shape like) {
  const Shape stacked{like[0] + 1, like[1]};
  const DType type = dtype(made);
  const V empty = make_int(OpKind::empty, stacked, type, {});
  const V in_order = p_.on_storage_of(empty, stacked, type, true);
  p_.value(in_order).requires_grad = true;
  emit(OpKind::index_put, {empty, places, made}, {in_order});
  return sliced(in_order, like, ir::Slice{0, 0});
}

/// GroupedExperts.forward of rows that are sorted by expert, within indices_padding_wrapper.
ir::ValueId Lowering::padded_experts(const Block& b, V rows_of, V counts) {
  const PaddedRows x = padded_rows(rows_of, counts);
  const V made = grouped_products(b, x);
  hold({x.rows});
  const V y = unpadded_rows(made, x.places, shape(rows_of));
  hold({made, x.places, x.sizes});
  return y;
}

/// ExpertParallel._token_dispatch: each expert's rows from all ranks, by rank and by expert, and
/// how many they are. The host waits for the numbers.
std::pair<ir::ValueId, ir::ValueId> Lowering::rows_by_rank(V rows_of, V counts) {
  const std::int64_t ranks = config_.layout.ep;
  const Shape by_rank{ranks, local_experts()};
  const V received = make_int(OpKind::all_to_all, shape(counts), DType::i64, {counts});
  const auto read = [&](V of) {
    const V splits = make_int(OpKind::sum, {ranks}, DType::i64, {p_.reshape(of, by_rank)});
    emit(OpKind::host_read, {splits}, {});
  };
  read(counts);
  read(received);
  return {all_to_all(rows_of), received};
}

/// GroupedExperts of which each rank has its own: rows go to their ranks, and back
/// (_token_combine). What the module is called with and returns lives until its hooks are done.
ir::ValueId Lowering::padded_experts_of_ranks(const Block& b, V rows_of, V counts) {
  const auto [came, received] = rows_by_rank(rows_of, counts);
  const Shape size = shape(came);
  const PaddedRows x = padded_rows(came, received);
  keep_route(x.places);
  hold({came, received});
  const V made = grouped_products(b, x);
  const V restored = unpadded_rows(made, x.places, size);
  const V returned = all_to_all(restored);
  hold({x.rows, x.sizes, made, restored});
  return returned;
}

/// ExpertParallel.permuted_indices, an attribute, until the block's next forward. (Of a pipeline it
/// is left out.)
void Lowering::keep_route(V places) {
  if (config_.layout.pp > 1) return;
  const auto block = static_cast<std::size_t>(block_);
  if (s_.routes.size() <= block) s_.routes.resize(block + 1);
  Carried& route = s_.routes[block];
  if (route.made == ir::no_id) route.before = out(shape(places), DType::i32, false);
  // By the step, so that it goes once where the block is recomputed.
  p_.emit(OpKind::hold, phase_, {-1, Module::root},
          {route.made == ir::no_id ? route.before : route.made}, {});
  route.made = places;
}

/// MoE.forward
ir::ValueId Lowering::padded_moe(const Block& b, V part_of_x) {
  leaf_ = Module::mlp;
  const V x = gathered_alike(part_of_x);
  const Shape given = shape(x);
  const std::int64_t h = given.back(), tokens = given.numel() / h, k = spec_.moe->top_k,
                     rows = tokens * k;
  const DType type = dtype(x);
  leaf_ = Module::mlp;
  const V flat = p_.on_storage_of(x, {tokens, h}, type, false);
  emit(OpKind::view, {x}, {flat});
  const Routed routed = corrected_softmax_router(b, flat);
  leaf_ = Module::mlp;
  added_in_place(b.tokens_per_expert, routed.locals.front());

  // TokenReorderer.forward; scores in the order of the experts are for those that score before.
  const V counts = counted_tokens(routed.experts);
  const V values = out({rows}, DType::i64, false), order = out({rows}, DType::i64, false);
  emit(OpKind::sort, {p_.reshape(routed.experts, {rows})}, {values, order});
  const V in_turn =
      make_int(OpKind::index, {rows}, DType::f32, {p_.reshape(routed.weights, {rows}), order});

  const V source = make_int(OpKind::floor_divide, {rows}, DType::i64, {order},
                            ir::FloorDivide{static_cast<std::int32_t>(k)});
  V rows_of = out({rows, h}, type, true);
  emit(OpKind::index, {flat, source}, {rows_of});
  leaf_ = Module::experts;
  if (tp_ > 1) rows_of = replicated(rows_of);  // TensorParallel._prepare_input_fn
  const V made = config_.layout.ep > 1 ? padded_experts_of_ranks(b, rows_of, counts)
                                       : padded_experts(b, rows_of, counts);
  leaf_ = Module::mlp;
  const V zeros = make_int(OpKind::fill, {rows, h}, type, {});
  const V restored = p_.on_storage_of(zeros, {rows, h}, type, true);
  p_.value(restored).requires_grad = true;
  emit(OpKind::index_put, {zeros, order, made}, {restored});
  const V wide = cast(p_.reshape(restored, {tokens, k, h}), DType::f32);
  const V sum = out({tokens, 1, h}, DType::f32, true);
  emit(OpKind::bmm, {p_.reshape(routed.weights, {tokens, 1, k}), wide}, {sum},
       ir::Product{static_cast<std::int32_t>(k), ir::Form::nn});
  const V y = scattered(p_.reshape(cast(sum, type), given));
  hold({flat, routed.weights, routed.experts, counts, in_turn, order, rows_of, made, restored});
  hold_all(routed.locals);
  return y;
}

}  // namespace ac_advisor::passes
