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
  const V weights = plain(all, type), numbers = plain(all, type), chosen = plain(all, DType::u8);
  emit(OpKind::index_put, {before ? best : scores, indices}, {weights});
  emit(OpKind::index_put, {indices}, {numbers});
  emit(OpKind::cast, {numbers}, {chosen});
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

MegatronLayers::Routing MegatronLayers::route(const Block& b, V x) {
  leaf_ = Module::router;
  const V logits = router_logits(x, b.router);
  if (spec_.moe->megatron->sinkhorn) return by_sinkhorn(logits);
  Routing routing = by_top_k(logits);
  if (spec_.moe->megatron->aux_loss) routing.weights = with_aux_loss(routing.weights, logits);
  return routing;
}

}  // namespace ac_advisor::passes
