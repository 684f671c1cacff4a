// Megatron-core's TopKRouter (core_v0.16, transformer/moe/router.py, moe_utils.py): logits of each
// token for each expert, what is chosen of them, and with which weight.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// RouterGatingLinearFunction. In fp32 its backward widens weight and input, and narrows both
/// gradients.
ir::ValueId MegatronLayers::router_logits(V x, V weight) {
  const bool wide = spec_.moe->megatron->wide_router;
  const DType type = wide ? DType::f32 : dtype_;
  const Shape rows = shape(x), of_weight = shape(weight);
  const std::int64_t tokens = rows.numel() / rows.back(), experts = of_weight[0];
  const auto inner = [](std::int64_t k) { return static_cast<std::int32_t>(k); };
  V read = x, by = weight;
  if (wide) {
    read = plain(rows, type);
    by = plain(of_weight, type);
    emit(OpKind::cast, {x}, {read});
    emit(OpKind::cast, {weight}, {by});
  }
  const V logits = plain({tokens, experts}, type);
  emit(OpKind::mm, {read, by}, {logits}, ir::Product{inner(rows.back())});

  // x, weight, gradient
  CompiledGraph g;
  std::int32_t next = 3;
  const auto make = [&](const Shape& s, DType made) {
    g.made.push_back({s, made, -1});
    return next++;
  };
  const auto launch = [&](OpKind kind, std::vector<std::int32_t> in, std::int32_t out,
                          const ir::Attributes& a = {}) {
    g.launches.push_back({kind, a, leaf_, std::move(in), {out}});
    return out;
  };
  const std::int32_t w = wide ? launch(OpKind::cast, {1}, make(of_weight, type)) : 1;
  const std::int32_t of_x =
      launch(OpKind::mm, {2, w}, make(rows, type), ir::Product{inner(experts), ir::Form::nn});
  const std::int32_t input = wide ? launch(OpKind::cast, {0}, make(rows, type)) : 0;
  const std::int32_t of_w = launch(OpKind::mm, {2, input}, make(of_weight, type),
                                   ir::Product{inner(tokens), ir::Form::tn});
  g.results = {of_x, of_w};
  if (wide) {
    g.results[0] = launch(OpKind::cast, {of_x}, make(rows, dtype_));
    g.results[1] = launch(OpKind::cast, {of_w}, make(of_weight, dtype_));
  }
  return node(OpKind::autograd_function, {x, weight}, logits, std::move(g));
}

/// sinkhorn_load_balancing: normalised by turns over tokens and experts, without gradients, until
/// nothing changes (planned as two rounds); weights are sigmoids, or of several experts softmaxes.
MegatronLayers::Routing MegatronLayers::by_sinkhorn(V logits) {
  const Shape all = shape(logits);
  const std::int64_t tokens = all[0];
  const std::int64_t k = spec_.moe->top_k;
  const V wide = plain(all, DType::f32), cost = plain(all, DType::f32);
  emit(OpKind::cast, {logits}, {wide});
  emit(OpKind::exp, {wide}, {cost});
  for (int round = 0; round < 2; ++round) {
    const V scaled = plain(all, DType::f32), sums = plain({tokens, 1}, DType::f32);
    emit(OpKind::mul, {cost, cost}, {scaled});
    emit(OpKind::sum, {scaled}, {sums});
  }
  const V normal = plain(all, DType::f32), best = plain({tokens, k}, DType::f32),
          indices = plain({tokens, k}, DType::i64);
  emit(OpKind::mul, {cost, cost}, {normal});
  emit(OpKind::topk, {normal}, {best, indices}, ir::TopK{static_cast<std::int32_t>(k)});
  const V scores = plain(all, dtype(logits)), numbers = plain(all, DType::i32),
          chosen = plain(all, DType::u8), weights = plain(all, dtype(logits));
  emit(k == 1 ? OpKind::sigmoid : OpKind::softmax, {logits}, {scores});
  emit(OpKind::scatter, {indices}, {numbers});
  emit(OpKind::cast, {numbers}, {chosen});
  emit(OpKind::mul, {scores, chosen}, {weights});
  hold({logits, normal, best, indices});
  // logits, scores, chosen, gradient
  CompiledGraph g;
  g.made = {{all, dtype(logits), -1}, {all, dtype(logits), -1}};
  g.launches = {{OpKind::mul, {}, leaf_, {3, 2}, {4}},
                {OpKind::sigmoid_backward, {}, leaf_, {4, 1}, {5}}};
  g.results = {5, -1, -1};
  return {node(OpKind::autograd_function, {logits, scores, chosen}, weights, std::move(g)), chosen};
}

/// What was chosen, [tokens, k], among all experts.
MegatronLayers::Routing MegatronLayers::put_in_place(V probabilities, V indices, V logits) {
  const Shape all = shape(logits);
  const DType type = dtype(logits);
  const V weights = plain(all, type), numbers = plain(all, type), chosen = plain(all, DType::u8);
  emit(OpKind::index_put, {probabilities, indices}, {weights});
  emit(OpKind::index_put, {indices}, {numbers});
  emit(OpKind::cast, {numbers}, {chosen});
  return {weights, chosen};
}

/// group_limited_topk, but for its last choice: scores where a token's groups are, less than all
/// elsewhere; of a group the sum of its best is compared.
ir::ValueId MegatronLayers::chosen_by_groups(V scores) {
  const Shape all = shape(scores);
  const model::MoeSpec& moe = *spec_.moe;
  const std::int64_t tokens = all[0], of_group = moe.top_k / moe.top_groups;
  const DType type = dtype(scores);
  const Shape groups{tokens, moe.groups}, taken{tokens, moe.top_groups};
  const V best = plain({tokens, moe.groups, of_group}, type),
          places = plain({tokens, moe.groups, of_group}, DType::i64), sums = plain(groups, type);
  emit(OpKind::topk, {scores}, {best, places}, ir::TopK{static_cast<std::int32_t>(of_group)});
  emit(OpKind::sum, {best}, {sums});
  const V best_groups = plain(taken, type), indices = plain(taken, DType::i64),
          mask = plain(groups, type), wide = plain(all, type);
  emit(OpKind::topk, {sums}, {best_groups, indices},
       ir::TopK{static_cast<std::int32_t>(moe.top_groups)});
  emit(OpKind::fill, {}, {mask}, ir::Number{});
  emit(OpKind::scatter, {indices}, {mask});
  emit(OpKind::clone, {mask}, {wide});
  const V among = plain(all, DType::u8), others = plain(all, DType::u8), left = plain(all, type);
  emit(OpKind::cast, {wide}, {among});
  emit(OpKind::cast, {among}, {others});
  emit(OpKind::masked_fill, {scores, others}, {left});
  hold({sums, mask, wide, left, indices});
  return left;
}

/// The same by sigmoids, divided by the sum of those that are chosen. What scores are corrected by
/// (moe_router_enable_expert_bias) is added for the choice alone, whose gradient nobody asks for;
/// without it the choice by groups saves which scores it left out.
MegatronLayers::Routing MegatronLayers::by_sigmoid(const Block& b, V logits) {
  const model::MoeSpec& moe = *spec_.moe;
  const Shape all = shape(logits), taken{all[0], moe.top_k}, row{all[0], 1};
  const DType type = dtype(logits);
  const bool corrected = moe.megatron->expert_bias, grouped = moe.groups > 1;
  V wide = logits;
  if (type != DType::f32) {
    wide = plain(all, DType::f32);
    emit(OpKind::cast, {logits}, {wide});
  }
  const V sigmoids = plain(all, DType::f32);
  emit(OpKind::sigmoid, {wide}, {sigmoids});
  V scores = sigmoids;
  if (type != DType::f32) {
    scores = plain(all, type);
    emit(OpKind::cast, {sigmoids}, {scores});
  }
  V asked = scores;
  if (corrected) {
    asked = plain(all, DType::f32);
    emit(OpKind::add, {scores, b.score_correction}, {asked}, ir::Add{});
  }
  const V left = grouped ? chosen_by_groups(asked) : asked;
  const V best = plain(taken, dtype(asked)), indices = plain(taken, DType::i64);
  emit(OpKind::topk, {left}, {best, indices}, ir::TopK{static_cast<std::int32_t>(moe.top_k)});
  V found = best;
  if (corrected) {
    found = plain(taken, type);
    emit(OpKind::gather, {scores, indices}, {found});
  }
  const V sums = plain(row, type), divisors = plain(row, type);
  V probabilities = found;
  if (moe.top_k > 1) {
    emit(OpKind::sum, {found}, {sums});
    emit(OpKind::add_scalar, {sums}, {divisors}, ir::Number{1e-20});
    probabilities = plain(taken, type);
    emit(OpKind::div, {found, divisors}, {probabilities}, ir::Number{});
  }
  if (moe.scaling != 1.0) {
    const V unscaled = probabilities;
    probabilities = plain(taken, type);
    emit(OpKind::mul_scalar, {unscaled}, {probabilities}, ir::Number{moe.scaling});
  }
  const auto [weights, chosen] = put_in_place(probabilities, indices, logits);
  hold({wide, scores, asked, best, sums, probabilities});

  // logits, sigmoids, indices, what was found of them and its divisors, what was left out; gradient
  std::vector<V> given{logits, sigmoids, indices, found, divisors};
  if (grouped && !corrected) given.push_back(left);
  const auto gradient = static_cast<std::int32_t>(given.size());
  CompiledGraph g;
  const auto launch = [&](OpKind kind, std::vector<std::int32_t> in, const Shape& s, DType made) {
    g.made.push_back({s, made, -1});
    const std::int32_t number = gradient + static_cast<std::int32_t>(g.made.size());
    g.launches.push_back({kind, {}, leaf_, std::move(in), {number}});
    return number;
  };
  std::int32_t of_taken = launch(OpKind::index, {gradient, 2}, taken, type);
  if (moe.scaling != 1.0) of_taken = launch(OpKind::mul_scalar, {of_taken}, taken, type);
  if (moe.top_k > 1) {
    const std::int32_t of_divisors = launch(OpKind::mul, {of_taken, 3}, taken, type),
                       of_sums = launch(OpKind::sum, {of_divisors}, row, type),
                       of_found = launch(OpKind::div, {of_taken, 4}, taken, type);
    of_taken = launch(OpKind::add, {of_found, of_sums}, taken, type);
  }
  std::int32_t of_scores = launch(OpKind::scatter, {of_taken, 2}, all, type);
  if (grouped && !corrected) of_scores = launch(OpKind::masked_fill, {of_scores, 5}, all, type);
  if (type != DType::f32) of_scores = launch(OpKind::cast, {of_scores}, all, DType::f32);
  std::int32_t of_logits = launch(OpKind::sigmoid_backward, {of_scores, 1}, all, DType::f32);
  if (type != DType::f32) of_logits = launch(OpKind::cast, {of_logits}, all, type);
  g.results.assign(given.size(), -1);
  g.results.front() = of_logits;
  return {node(OpKind::autograd_function, given, weights, std::move(g)), chosen};
}

/// topk_routing_with_score_function: the softmax of what was chosen, or of all experts, put where
/// it belongs.
MegatronLayers::Routing MegatronLayers::by_top_k(V logits) {
  const Shape all = shape(logits);
  const std::int64_t tokens = all[0], k = spec_.moe->top_k;
  const bool before = spec_.moe->megatron->pre_softmax;
  const DType type = dtype(logits);
  const Shape taken{tokens, k}, scored = before ? all : taken;
  const V best = plain(taken, type), indices = plain(taken, DType::i64),
          wide = plain(scored, DType::f32), softmax = plain(scored, DType::f32);
  const auto choose = [&](V from) {
    emit(OpKind::topk, {from}, {best, indices}, ir::TopK{static_cast<std::int32_t>(k)});
  };
  V scores = ir::no_id;
  if (!before) choose(logits);
  emit(OpKind::cast, {before ? logits : best}, {wide});
  emit(OpKind::softmax, {wide}, {softmax});
  scores = softmax;
  if (type != DType::f32) {  // type_as
    scores = plain(scored, type);
    emit(OpKind::cast, {softmax}, {scores});
  }
  if (before) choose(scores);
  const auto [weights, chosen] = put_in_place(before ? best : scores, indices, logits);
  hold({best, scores});
  // logits, softmax, indices, gradient
  CompiledGraph g;
  g.made = {{taken, type, -1}, {scored, DType::f32, -1}, {all, type, -1}};
  g.launches = {{OpKind::index, {}, leaf_, {3, 2}, {4}},
                {OpKind::softmax_backward, {}, leaf_, {4, 1}, {5}},
                {OpKind::scatter, {}, leaf_, {5, 2}, {6}}};
  g.results = {6, -1, -1};
  return {node(OpKind::autograd_function, {logits, softmax, indices}, weights, std::move(g)),
          chosen};
}

/// compute_routing_scores_for_aux_loss and switch_load_balancing_loss_func: the softmax over all
/// experts in fp32, which is saved, and a number that hangs on the weights (MoEAuxLossAutoScaler).
ir::ValueId MegatronLayers::with_aux_loss(V weights, V logits) {
  const Shape all = shape(logits);
  const Shape taken{all[0], spec_.moe->top_k}, row{all[1]};
  const V wide = plain(all, DType::f32), softmax = plain(all, DType::f32),
          best = plain(taken, DType::f32), indices = plain(taken, DType::i64),
          numbers = plain(all, DType::i32), chosen = plain(all, DType::u8),
          loads = plain(row, DType::i64);
  emit(OpKind::cast, {logits}, {wide});
  emit(OpKind::softmax, {wide}, {softmax});
  emit(OpKind::topk, {softmax}, {best, indices},
       ir::TopK{static_cast<std::int32_t>(spec_.moe->top_k)});
  emit(OpKind::scatter, {indices}, {numbers});
  emit(OpKind::cast, {numbers}, {chosen});
  emit(OpKind::sum, {chosen}, {loads});
  if (tp_ > 1) emit(OpKind::tp_all_reduce, {loads}, {});
  hold({best, indices, chosen});
  // weights, logits, softmax, loads, gradient
  CompiledGraph g;
  g.made = {{all, DType::f32, -1}, {all, dtype(logits), -1}};
  g.launches = {{OpKind::softmax_backward, {}, leaf_, {2, 3}, {5}},
                {OpKind::cast, {}, leaf_, {5}, {6}}};
  g.results = {4, 6, -1, -1};
  return node(OpKind::autograd_function, {weights, logits, softmax, loads}, weights, std::move(g));
}

/// The same of sigmoids over their sum, in the router's dtype; of a sequence's own loss
/// (seq_aux_loss) all tensors are as large.
ir::ValueId MegatronLayers::with_aux_loss_of_sigmoids(V weights, V logits) {
  const Shape all = shape(logits), row{all[0], 1};
  const std::int64_t k = spec_.moe->top_k,
                     sequences = spec_.moe->megatron->sequence_loss ? batch_ : 1;
  const DType type = dtype(logits);
  const V sigmoids = plain(all, type), sums = plain(row, type), divisors = plain(row, type),
          scores = plain(all, type), best = plain({all[0], k}, type),
          indices = plain({all[0], k}, DType::i64), zeros = plain(all, type),
          numbers = plain(all, DType::i32), chosen = plain(all, DType::u8),
          loads = plain({sequences * all[1]}, DType::i64),
          totals = plain({sequences * all[1]}, type);
  emit(OpKind::sigmoid, {logits}, {sigmoids});
  emit(OpKind::sum, {sigmoids}, {sums});
  emit(OpKind::add_scalar, {sums}, {divisors}, ir::Number{1e-20});
  emit(OpKind::div, {sigmoids, divisors}, {scores}, ir::Number{});
  emit(OpKind::topk, {scores}, {best, indices}, ir::TopK{static_cast<std::int32_t>(k)});
  emit(OpKind::fill, {}, {zeros}, ir::Number{});
  emit(OpKind::scatter, {indices}, {numbers});
  emit(OpKind::cast, {numbers}, {chosen});
  emit(OpKind::sum, {chosen}, {loads});
  if (tp_ > 1) emit(OpKind::tp_all_reduce, {loads}, {});
  emit(OpKind::sum, {scores}, {totals});
  hold({sums, scores, chosen});
  // weights, logits, sigmoids, divisors, loads, gradient
  CompiledGraph g;
  g.made = {{all, type, -1}, {all, type, -1}, {row, type, -1}, {all, type, 7}, {all, type, -1}};
  g.launches = {{OpKind::mul, {}, leaf_, {2, 4}, {6}},
                {OpKind::div, ir::Number{}, leaf_, {6, 3}, {7}},
                {OpKind::sum, ir::Sum{}, leaf_, {6}, {8}},
                {OpKind::add, ir::Add{}, leaf_, {7, 8}, {9}},
                {OpKind::sigmoid_backward, {}, leaf_, {9, 2}, {10}}};
  g.results = {5, 10, -1, -1, -1};
  return node(OpKind::autograd_function, {weights, logits, sigmoids, divisors, loads}, weights,
              std::move(g));
}

/// _apply_expert_bias: loads of this rank's tokens so far.
void MegatronLayers::count_loads(const Block& b, V chosen) {
  if (b.tokens_per_expert == ir::no_id) return;
  emit(OpKind::generated, {chosen, b.tokens_per_expert}, {}, ir::Generated{});
}

MegatronLayers::Routing MegatronLayers::route(const Block& b, V x) {
  leaf_ = Module::router;
  const V logits = router_logits(x, b.router);
  const model::MoeSpec& moe = *spec_.moe;
  if (moe.megatron->sinkhorn) return by_sinkhorn(logits);
  const bool sigmoids = moe.sigmoid_scores;
  Routing routing = sigmoids ? by_sigmoid(b, logits) : by_top_k(logits);
  if (moe.megatron->aux_loss)
    routing.weights = sigmoids ? with_aux_loss_of_sigmoids(routing.weights, logits)
                               : with_aux_loss(routing.weights, logits);
  count_loads(b, routing.chosen);
  return routing;
}

}  // namespace ac_advisor::passes
