// transformers v5.23: routers whose experts are chosen otherwise than Mixtral's, by a few ops.
#include <limits>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// GraniteMoeTopKRouter.forward: logits in fp32, a softmax of the chosen ones, in the model's
/// dtype.
Lowering::Routed Lowering::wide_top_softmax_router(const Block& b, V flat) {
  leaf_ = Module::router;
  const V logits = cast(linear(flat, {b.router, ir::no_id}), DType::f32);
  const auto [top, experts] = best_experts(logits);
  const V weights = cast(unary(OpKind::softmax, top), dtype(flat));
  hold({top});
  return {logits, weights, experts, {logits, weights, experts}};
}

/// MiniMaxM2TopKRouter.forward: the choice is made of corrected scores, the weights are the
/// scores'.
Lowering::Routed Lowering::narrow_sigmoid_router(const Block& b, V flat) {
  leaf_ = Module::router;
  std::vector<V> held;
  const V logits = linear(flat, {router_weight(b, held), ir::no_id});
  const V scores = unary(OpKind::sigmoid, cast(logits, DType::f32));
  const V choice = make_int(OpKind::add, shape(scores), DType::f32, {scores, b.score_correction});
  const auto [picked, experts, values] = corrected_choice(scores, choice);
  const V weights = divided_in_place(picked, sum_of_choices(picked));
  hold({scores, choice, values});
  hold_all(held);
  return {logits, weights, experts, {logits, weights, experts}};
}

/// Of each token's best experts by `choice` the scores, which they are, and by what they were
/// chosen.
std::array<ir::ValueId, 3> Lowering::corrected_choice(V scores, V choice) {
  const Shape size{shape(scores)[0], spec_.moe->top_k};
  const V values = out(size, DType::f32, false), experts = out(size, DType::i64, false);
  emit(OpKind::topk, {choice}, {values, experts}, ir::TopK{static_cast<std::int32_t>(size[1])});
  const V picked = out(size, dtype(scores), grad(scores));
  emit(OpKind::gather, {scores, experts}, {picked});
  return {picked, experts, values};
}

ir::ValueId Lowering::sum_of_choices(V weights) {
  const V total = out({shape(weights)[0], 1}, DType::f32, grad(weights));
  emit(OpKind::sum, {weights}, {total});
  return total;
}

/// HunYuanMoEV1Gate.forward: its weight is in fp32, so are its logits but for autocast's product.
Lowering::Routed Lowering::fp32_softmax_router(const Block& b, V flat) {
  leaf_ = Module::router;
  const V wide = dtype(b.router) == DType::f32 ? cast(flat, DType::f32) : flat;
  const V logits = linear(wide, {b.router, ir::no_id});
  const V scores = unary(OpKind::softmax, cast(logits, DType::f32));
  const auto [top, experts] = best_experts(scores);
  const V weights = cast(divided_in_place(top, sum_of_choices(top)), dtype(logits));
  hold({wide});
  return {logits, weights, experts, {weights, experts}};
}

/// Ernie4_5_MoeTopKRouter.forward, without autocast whatever is outside.
Lowering::Routed Lowering::corrected_router(const Block& b, V flat) {
  leaf_ = Module::router;
  const V wide = cast(flat, DType::f32);
  const V logits =
      out({shape(flat)[0], spec_.moe->experts}, DType::f32, grad(flat) || grad(b.router));
  emit(OpKind::mm, {wide, cast(b.router, DType::f32)}, {logits},
       ir::Product{static_cast<std::int32_t>(spec_.hidden)});
  const V scores = unary(OpKind::softmax, logits);
  const V correction = p_.reshape(b.score_correction, {spec_.moe->experts});
  const V choice = make_int(OpKind::add, shape(scores), DType::f32, {scores, correction});
  const auto [picked, experts, values] = corrected_choice(scores, choice);
  const V total = sum_of_choices(picked);
  const V bounded =
      unary(OpKind::clamp, total, ir::Clamp{1e-12, std::numeric_limits<double>::infinity()});
  const V weights = cast(binary(OpKind::div, picked, bounded), dtype(flat));
  hold({values});
  return {logits, weights, experts, {logits, weights, experts}};
}

}  // namespace ac_advisor::passes
