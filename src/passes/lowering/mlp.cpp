// transformers v5.23: <Family>MLP.forward, TopKRouter.forward, grouped_mm_experts_forward.
#include <limits>
#include <tuple>

#include "ac_advisor/model/class_facts.hpp"
#include "lowering.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

ir::ValueId Lowering::activate(V x, std::vector<ir::OpId>* chain) {
  using model::Activation;
  V y{};
  switch (spec_.activation) {
    case Activation::silu:
      y = unary(OpKind::silu, x);
      break;
    case Activation::gelu_tanh:
      y = unary(OpKind::gelu_tanh, x);
      break;
    case Activation::gelu:
      y = unary(OpKind::gelu, x);
      break;
    case Activation::gelu_new:
      return gelu_new(x);
    case Activation::gelu_recomputed:
      return recomputed_gelu(x);
    case Activation::relu:
      y = unary(OpKind::relu, x);
      break;
    case Activation::relu2: {  // torch.square, which autocast computes in fp32
      const V positive = unary(OpKind::relu, x);
      y = unary(OpKind::pow, config_.precision.autocast ? cast(positive, DType::f32) : positive,
                ir::Power{2.0});
      break;
    }
  }
  if (chain != nullptr) chain->push_back(last_op());
  return y;
}

/// NewGELUActivation.forward: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))); pow is
/// one of those that autocast computes in fp32.
ir::ValueId Lowering::gelu_new(V x) {
  constexpr double root = 0.7978845608028654, cubic = 0.044715;
  const auto times = [&](V v, double number) {
    return unary(OpKind::mul_scalar, v, ir::Number{number});
  };
  const V half = times(x, 0.5);
  const V base = config_.precision.autocast ? cast(x, DType::f32) : x;
  const V inner = binary(OpKind::add, x, times(unary(OpKind::pow, base, ir::Power{3.0}), cubic));
  const V bent = unary(OpKind::tanh, times(inner, root));
  return binary(OpKind::mul, half, unary(OpKind::add_scalar, bent, ir::Number{1.0}));
}

/// GeLUFunction.forward, bloom_gelu_forward: x * 0.5 * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x
/// * x))). No op of it is a node of autograd's.
ir::ValueId Lowering::recomputed_gelu(V x) {
  constexpr double root = 0.79788456, cubic = 0.044715;
  const auto of = [&](OpKind kind, std::initializer_list<V> inputs,
                      const ir::Attributes& attributes = {}) {
    return make_int(kind, shape(x), dtype(x), inputs, attributes);
  };
  const V half = of(OpKind::mul_scalar, {x}, ir::Number{0.5});
  const V scaled = of(OpKind::mul_scalar, {x}, ir::Number{root});
  const V square = of(OpKind::mul, {of(OpKind::mul_scalar, {x}, ir::Number{cubic}), x});
  const V inner = of(OpKind::mul, {scaled, of(OpKind::add_scalar, {square}, ir::Number{1.0})});
  const V bent = of(OpKind::add_scalar, {of(OpKind::tanh, {inner})}, ir::Number{1.0});
  const V y = out(shape(x), dtype(x), grad(x));
  emit(OpKind::recomputed_gelu, {half, bent, x}, {y});
  return y;
}

ir::ValueId Lowering::plain_mlp(const Block& b, V x) {
  leaf_ = Module::up_proj;
  const V wide = linear(x, b.up);
  leaf_ = Module::activation;
  const V activated = activate(wide, nullptr);
  hold({wide});  // the activation's argument
  leaf_ = Module::down_proj;
  const V y = linear(activated, b.down);
  if (spec_.residual_inside) {
    frame_.insert(frame_.end(), {x, activated, y});  // y: dropout_add's argument
    return y;
  }
  hold({activated});                         // until its name is bound to y
  if (!spec_.flat_mlp) frame_.push_back(x);  // opt's block has no module for it
  return y;
}

std::pair<ir::ValueId, ir::ValueId> Lowering::chunk(V x) {
  return split_at(x, shape(x).back() / 2);
}

ir::ValueId Lowering::mlp(const Block& b, V x) {
  V y = spec_.plain_mlp ? plain_mlp(b, x) : gated_mlp(b, x);
  if (!spec_.dropout_in_block) y = dropped(y, spec_.residual_dropout);
  if (spec_.plain_mlp && !spec_.residual_inside) end_frame();
  return y;
}

ir::ValueId Lowering::gated_mlp(const Block& b, V x) {
  const ir::SwiGlu act{spec_.activation == model::Activation::gelu_tanh ? ir::Gate::gelu_tanh
                                                                        : ir::Gate::silu};
  Chain chain{OpKind::swiglu, {}, {}, ir::no_id, ir::no_id, act};
  V gate{}, up{}, activated{};
  if (b.gate_up.weight != ir::no_id) {  // phi3
    leaf_ = Module::gate_up_proj;
    const V both = linear(x, b.gate_up);
    leaf_ = Module::activation;
    std::tie(gate, up) = chunk(both);
    activated = activate(gate, &chain.ops);
    const V product = binary(OpKind::mul, up, activated);
    chain.ops.push_back(last_op());
    chain.inputs = {gate, up};
    chain.output = product;
    s_.chains.push_back(std::move(chain));
    leaf_ = Module::down_proj;
    const V y = linear(product, b.down);
    hold({x, product, gate});
    return y;
  }
  const V given = x;
  leaf_ = Module::mlp;
  if (fuses_adapted_mlp(b)) {
    const V y = adapted_mlp_by_automodel(b, x);
    hold({x});
    return y;
  }
  x = gathered(input_in_fp8(x));
  leaf_ = Module::gate_proj;
  gate = linear(x, b.gate);
  leaf_ = Module::activation;
  activated = activate(gate, &chain.ops);
  leaf_ = Module::up_proj;
  up = linear(x, b.up);
  leaf_ = Module::activation;
  const V product = binary(OpKind::mul, activated, up);
  chain.ops.push_back(last_op());
  chain.inputs = {gate, up};
  chain.output = product;
  s_.chains.push_back(std::move(chain));
  leaf_ = Module::down_proj;
  const V y = gradient_in_fp8(scattered(linear(input_in_fp8(product), b.down)));
  if (shares_in_fp8()) hold({product});  // the caller's argument, which nothing saves
  hold({given, x});
  return y;
}

/// div_ in place: autograd saves a copy of what it overwrites.
ir::ValueId Lowering::divided_in_place(V weights, V total) {
  const V before = unary(OpKind::clone, weights);
  const V divided = p_.on_storage_of(weights, shape(weights), dtype(weights), true);
  emit(OpKind::div, {before, total}, {divided});
  return divided;
}

/// torch.topk of each token's scores: values and experts, (tokens, top k). Beside adapters of
/// experts a first block's launches were met nearer with its routing in the graph.
std::pair<ir::ValueId, ir::ValueId> Lowering::best_experts(V scores) {
  const Shape size{shape(scores)[0], spec_.moe->top_k};
  const bool trained = grad(scores) || adapted_experts(spec_, config_).any();
  const V top = out(size, dtype(scores), trained), experts = out(size, DType::i64, false);
  emit(OpKind::topk, {scores}, {top, experts},
       ir::TopK{static_cast<std::int32_t>(size[1]), config_.run.balanced_routing});
  return {top, experts};
}

/// Qwen3MoeTopKRouter.forward: (tokens, experts) in fp32 for the softmax
Lowering::Routed Lowering::softmax_router(const Block& b, V flat) {
  const auto& moe = *spec_.moe;
  leaf_ = Module::router;
  std::vector<V> held;
  const V logits = linear(flat, {router_weight(b, held), ir::no_id});
  const V probabilities = unary(OpKind::softmax, cast(logits, DType::f32));
  const auto [top, experts] = best_experts(probabilities);
  V weights = top;
  if (moe.normalize_top_k) {
    weights = divided_in_place(top, sum_of_choices(top));
  }
  if (!moe.wide_weights) weights = cast(weights, dtype(flat));
  hold({probabilities});
  hold_all(held);
  return {logits, weights, experts, {logits, top, experts}};
}

/// DeepseekV2TopkRouter.forward, "greedy".
Lowering::Routed Lowering::wide_softmax_router(const Block& b, V flat) {
  leaf_ = Module::router;
  const V wide = cast(flat, DType::f32);
  const V logits = linear(wide, {cast(b.router, DType::f32), ir::no_id});
  const V scores = unary(OpKind::softmax, logits);
  const auto [top, experts] = best_experts(scores);
  const V weights = unary(OpKind::mul_scalar, top, ir::Number{spec_.moe->scaling});
  hold({scores});
  return {logits, weights, experts, {}};
}

/// GptOssTopKRouter.forward: the softmax is over the chosen logits alone.
Lowering::Routed Lowering::top_softmax_router(const Block& b, V flat) {
  leaf_ = Module::router;
  const V logits = linear(flat, {b.router, b.router_bias});
  const auto [top, experts] = best_experts(logits);
  const V weights = unary(OpKind::softmax, top);
  hold({top});
  return {logits, weights, experts, {logits, weights, experts}};
}

/// hidden_states *= empty_like(hidden_states).uniform_(…)
ir::ValueId Lowering::jittered(V x, OpKind product) {
  leaf_ = Module::router;
  const V noise = make_int(OpKind::random, shape(x), dtype(x), {});
  const V y = p_.on_storage_of(x, shape(x), dtype(x), true);
  p_.value(y).requires_grad = grad(x);
  emit(product, {x, noise}, {y});
  return y;
}

/// PhimoeTopKRouter.forward, sparsemixer: two experts a token, each sampled from the scores that
/// are near the best, the second from what the first left.
Lowering::Routed Lowering::sparse_mixer(const Block& b, V flat) {
  const std::int64_t tokens = shape(flat)[0];
  leaf_ = Module::router;
  const V logits = linear(flat, {b.router, ir::no_id});
  const auto [first, expert] = sampled_expert(logits, logits, false);
  const V rest = out(shape(logits), dtype(logits), grad(logits));  // scatter, out of place
  emit(OpKind::clone, {logits}, {rest});
  const V without = p_.on_storage_of(rest, shape(rest), dtype(rest), true);
  emit(OpKind::scatter, {rest, expert}, {without});
  const auto [second, other] = sampled_expert(logits, without, true);
  const V weights = out({tokens, 2}, dtype(logits), grad(logits));
  emit(OpKind::cat, {first, second}, {weights});
  const V experts = out({tokens, 2}, DType::i64, false);
  emit(OpKind::cat, {expert, other}, {experts});
  hold({without});
  return {logits, weights, experts, {logits, weights, experts}};
}

/// A weight a token and its expert, (tokens, 1). No gradient reaches what only chooses.
std::pair<ir::ValueId, ir::ValueId> Lowering::sampled_expert(V scores, V masked_scores,
                                                             bool drawn_twice) {
  const Shape all = shape(scores), one{all[0], 1};
  const DType type = dtype(scores);
  const auto like = [&](OpKind kind, std::initializer_list<V> inputs,
                        const ir::Attributes& attributes = {}) {
    return make_int(kind, all, type, inputs, attributes);
  };
  const auto highest = [&](V of) {
    const V values = out(one, type, false), places = out(one, DType::i64, false);
    emit(OpKind::max, {of}, {values, places});
    return std::pair{values, places};
  };
  const auto boolean = [&](const Shape& size, std::initializer_list<V> inputs, ir::Comparison how) {
    return make_int(OpKind::compare, size, DType::u8, inputs, ir::Compare{0.0, how});
  };
  const auto [best, best_place] = highest(masked_scores);
  const V factor = like(OpKind::clamp, {like(OpKind::abs, {scores}), best});
  const V distance = like(OpKind::div, {like(OpKind::add, {best, scores}, ir::Add{-1.0}), factor});
  const V far = boolean(all, {distance}, ir::Comparison::greater);
  const V copy = like(OpKind::clone, {masked_scores});
  const V near = p_.on_storage_of(copy, all, type, true);
  emit(OpKind::masked_fill, {copy, far}, {near});
  const V noise = like(OpKind::log, {like(OpKind::random, {})});
  const V sampled = highest(like(OpKind::add, {near, noise}, ir::Add{-1.0})).second;
  const V gates = like(OpKind::softmax, {near});
  const V picked = make_int(OpKind::gather, one, type, {gates, sampled});
  const V first_place = highest(gates).second;
  const V same = boolean(one, {sampled, first_place}, ir::Comparison::both);
  V draw = make_int(OpKind::random, one, type, {});
  if (drawn_twice) {  // rand_like(…).uniform_()
    const V again = p_.on_storage_of(draw, one, type, true);
    emit(OpKind::random, {draw}, {again});
    draw = again;
  }
  const V lucky = boolean(one, {draw}, ir::Comparison::greater);
  const V whole = boolean(one, {same, lucky}, ir::Comparison::both);
  const V share = make_int(OpKind::add_scalar, one, DType::f32, {whole}, ir::Number{0.3333});
  const V narrow = cast(share, type);
  const V weight = out(one, type, grad(scores));
  emit(OpKind::routing_multiplier, {scores, picked, sampled, gates, narrow, far}, {weight});
  return {weight, sampled};
}

/// GptOssExperts._apply_gate: gate and up are neighbours, both clamped.
ir::ValueId Lowering::clamped_gate(V both) {
  constexpr double limit = 7.0, sharpness = 1.702;  // the configuration class's
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::int64_t width = shape(both).back() / 2;
  const V gate_part = slice_last(both, width, 0), up_part = slice_last(both, width, 1);
  const V gate = unary(OpKind::clamp, gate_part, ir::Clamp{-infinity, limit});
  const V up = unary(OpKind::clamp, up_part, ir::Clamp{-limit, limit});
  const V bent = unary(OpKind::sigmoid, unary(OpKind::mul_scalar, gate, ir::Number{sharpness}));
  const V glu = binary(OpKind::mul, gate, bent);
  const V y = binary(OpKind::mul, unary(OpKind::add_scalar, up, ir::Number{1.0}), glu);
  hold({gate, up, glu});
  return y;
}

/// _grouped_linear: rows that are sorted by expert times each one's weight, in its dtype (autocast
/// leaves fp32 what LayerNorm makes); biases are added in place, a row of them for each.
ir::ValueId Lowering::expert_product(V rows, V weight, V bias, V ids, V offsets, V& biases) {
  if (is_half(dtype(weight))) rows = cast(rows, dtype(weight));
  V selected = ir::no_id;
  const std::int64_t count = shape(rows)[0], width = shape(weight)[spec_.moe->input_first ? 2 : 1];
  if (bias != ir::no_id) {
    selected = out({count, width}, dtype(rows), grad(bias));
    emit(OpKind::index, {bias, ids}, {selected});
    hold({biases});  // until they are bound anew
    biases = selected;
  }
  const bool trained = grad(rows) || grad(weight) || (bias != ir::no_id && grad(bias));
  const V y = out({count, width}, dtype(rows), trained);
  emit(OpKind::grouped_mm, {rows, weight, offsets}, {y},
       ir::Product{static_cast<std::int32_t>(shape(rows).back())});
  return bias == ir::no_id ? y : added_in_place(y, selected);
}

/// Glm4MoeTopkRouter.forward, DeepseekV3TopkRouter.forward. The choice is made of corrected scores,
/// in fp32, the weights of the scores themselves: autocast multiplies fp32 by fp32 in its own
/// dtype.
Lowering::Routed Lowering::sigmoid_router(const Block& b, V flat) {
  const auto& moe = *spec_.moe;
  const std::int64_t tokens = shape(flat)[0];
  leaf_ = Module::router;
  const V wide = cast(flat, DType::f32);
  std::vector<V> held;
  const V logits = linear(wide, {cast(router_weight(b, held), DType::f32), ir::no_id});
  const V scores = unary(OpKind::sigmoid, logits);
  const auto plain = [&](const Shape& size, DType type) { return out(size, type, false); };
  const V choice = plain(shape(scores), DType::f32);
  emit(OpKind::add, {scores, b.score_correction}, {choice});
  const std::int64_t n = moe.groups, m = moe.top_groups;
  const V by_group = p_.reshape(choice, {tokens, n, moe.experts / n});
  const V two = plain({tokens, n, 2}, DType::f32), of_two = plain({tokens, n, 2}, DType::i64);
  emit(OpKind::topk, {by_group}, {two, of_two}, ir::TopK{2});
  const V group = plain({tokens, n}, DType::f32);
  emit(OpKind::sum, {two}, {group});
  const V best = plain({tokens, m}, DType::f32), of_best = plain({tokens, m}, DType::i64);
  emit(OpKind::topk, {group}, {best, of_best}, ir::TopK{static_cast<std::int32_t>(m)});
  const V zeros = plain({tokens, n}, DType::f32);
  emit(OpKind::fill, {}, {zeros});
  const V groups = p_.on_storage_of(zeros, shape(zeros), DType::f32, true);
  emit(OpKind::scatter, {zeros, of_best, of_best}, {groups});
  V mask = groups;
  if (n > 1) {  // expanded to the experts: one group's is a view
    mask = plain(shape(scores), DType::f32);
    emit(OpKind::clone, {groups}, {mask});
  }
  const V within = plain(shape(scores), DType::u8), outside = plain(shape(scores), DType::u8);
  emit(OpKind::cast, {mask}, {within});
  emit(OpKind::compare, {within}, {outside}, ir::Compare{1.0, ir::Comparison::not_equal});
  const V masked = plain(shape(scores), DType::f32);
  emit(OpKind::masked_fill, {choice, outside}, {masked});
  const auto [picked, experts, values] = corrected_choice(scores, masked);
  V weights = picked;
  V denominator = ir::no_id;
  if (moe.normalize_top_k) {
    denominator = unary(OpKind::add_scalar, sum_of_choices(picked), ir::Number{1e-20});
    weights = divided_in_place(picked, denominator);
  }
  weights = unary(OpKind::mul_scalar, weights, ir::Number{moe.scaling});
  hold({wide, scores, of_two, group, of_best, groups, mask, outside, masked});
  hold({denominator});
  hold_all(held);
  return {logits, weights, experts, {}};
}

/// act(gate) * up, of the halves of what experts' first product made
ir::ValueId Lowering::expert_gate(V both) {
  const auto [gate, up] = chunk(both);
  Chain chain{OpKind::swiglu, {}, {gate, up}, ir::no_id, ir::no_id, ir::SwiGlu{}};
  const V activated = activate(gate, &chain.ops);
  const V product = binary(OpKind::mul, activated, up);
  chain.ops.push_back(last_op());
  chain.output = product;
  s_.chains.push_back(std::move(chain));
  return product;
}

/// grouped_mm_experts_forward of rows, each by the experts of its row of `experts`; `callers`: what
/// who calls it holds as long as its own locals. What is given to local experts may be marked as
/// another rank's: such rows are cleared before and after each product.
ir::ValueId Lowering::sorted_experts(const Block& b, V rows_of, V experts, V weights,
                                     std::initializer_list<V> callers) {
  const auto& moe = *spec_.moe;
  const std::int64_t tokens = shape(rows_of)[0], top_k = shape(experts)[1], rows = tokens * top_k,
                     count = local_experts();
  const bool marked = config_.layout.ep > 1;
  const DType type = dtype(rows_of);
  ExpertWeights w = adapted_weights(b);
  const V sample_weights = p_.reshape(weights, {rows});
  const V expert_ids = p_.reshape(experts, {rows});
  const V sorted_ids = out({rows}, DType::i64, false), order = out({rows}, DType::i64, false);
  emit(OpKind::sort, {expert_ids}, {sorted_ids, order});
  const V source = out({rows}, DType::i64, false);
  emit(OpKind::floor_divide, {order}, {source}, ir::FloorDivide{static_cast<std::int32_t>(top_k)});
  V selected = out({rows, spec_.hidden}, type, grad(rows_of) || grad(weights));
  emit(OpKind::index, {rows_of, source}, {selected});
  const V weights_sorted = out({rows}, dtype(weights), grad(weights));
  emit(OpKind::index, {sample_weights, order}, {weights_sorted});
  const V narrow_ids = out({rows}, DType::i32, false);
  emit(OpKind::cast, {sorted_ids}, {narrow_ids});
  const V counts = out({count}, DType::i32, false);
  if (count == 1)  // from 0 to 0: histc looks for a smallest and a largest itself
    for (int end = 0; end < 2; ++end) make_int(OpKind::amax, {1}, DType::i32, {narrow_ids});
  emit(OpKind::histc, {narrow_ids}, {counts}, ir::Histc{static_cast<std::int32_t>(count)});
  const V offsets = out({count}, DType::i32, false);
  emit(OpKind::cumsum, {counts}, {offsets});
  V mask = ir::no_id;
  if (marked) {
    const auto last = static_cast<double>(count - 1);
    mask = make_int(OpKind::compare, {rows}, DType::u8, {sorted_ids},
                    ir::Compare{static_cast<double>(count), ir::Comparison::at_least});
    const V within = p_.on_storage_of(sorted_ids, {rows}, DType::i64, true);
    emit(OpKind::clamp, {sorted_ids}, {within},
         ir::Clamp{-std::numeric_limits<double>::infinity(), last});
    mask = p_.reshape(mask, {rows, 1});
    const V cleared = p_.on_storage_of(selected, shape(selected), type, true);
    emit(OpKind::masked_fill, {selected, mask}, {cleared});
    selected = cleared;
  }
  const auto own = [&](V product) {
    if (!marked) return product;
    const V cleared = out(shape(product), dtype(product), grad(product));
    emit(OpKind::masked_fill, {product, mask}, {cleared});
    return cleared;
  };

  V biases = ir::no_id;
  const V both = own(expert_product(selected, read(w.gate_up, w.of_gate_up, w.held),
                                    b.experts_gate_up_bias, sorted_ids, offsets, biases));
  const V product = moe.clamped_gate ? clamped_gate(both) : expert_gate(both);
  hold({both});
  const V expert_out = own(expert_product(product, read(w.down, w.of_down, w.held),
                                          b.experts_down_bias, sorted_ids, offsets, biases));
  hold({product});
  const V column = p_.reshape(weights_sorted, {rows, 1});
  const V weighted = binary(OpKind::mul, expert_out, column);
  const V inverse = out({rows}, DType::i64, false);
  emit(OpKind::empty, {}, {inverse});
  const V positions = out({rows}, DType::i64, false);
  emit(OpKind::arange, {}, {positions});
  const V inverse_filled = p_.on_storage_of(inverse, {rows}, DType::i64, true);
  emit(OpKind::index_put, {inverse, order, positions}, {inverse_filled});
  const V restored = out({rows, spec_.hidden}, dtype(weighted), grad(weighted));
  emit(OpKind::index, {weighted, inverse_filled}, {restored});
  hold({weighted});
  // autocast sums in fp32
  const DType summed = config_.precision.autocast ? DType::f32 : dtype(weighted);
  const V combined = out({tokens, spec_.hidden}, summed, grad(restored));
  // view(tokens, top_k, hidden).sum(1): of one expert a token its gradient is a view
  emit(OpKind::sum, {restored}, {combined},
       ir::Sum{top_k > 1 ? ir::SumOver::experts : ir::SumOver::choices});
  const V y = cast(combined, type);
  std::vector<V> locals(callers);
  locals.insert(locals.end(), {selected, weights_sorted, expert_out, restored, inverse_filled,
                               sorted_ids, counts});
  hold_all(locals);
  hold({order, offsets, narrow_ids, mask});
  hold({biases});
  hold_all(w.held);
  return y;
}

Lowering::Routed Lowering::route(const Block& b, V flat) {
  const auto& moe = *spec_.moe;
  if (moe.sigmoid_scores) return sigmoid_router(b, flat);
  if (moe.wide_scores) return wide_softmax_router(b, flat);
  if (moe.softmax_of_top) return top_softmax_router(b, flat);
  if (moe.sparse_mixer) return sparse_mixer(b, flat);
  switch (model::class_facts(spec_.family).router) {
    case model::Router::usual:
      break;
    case model::Router::of_top:
      return wide_top_softmax_router(b, flat);
    case model::Router::sigmoid:
      return narrow_sigmoid_router(b, flat);
    case model::Router::fp32:
      return fp32_softmax_router(b, flat);
    case model::Router::corrected:
      return corrected_router(b, flat);
  }
  return softmax_router(b, flat);
}

ir::ValueId Lowering::moe(const Block& b, V x) {
  const auto& moe = *spec_.moe;
  const std::int64_t tokens = config_.run.batch * config_.run.seq;
  if (moe.every_expert) return every_expert(b, x);
  if (forms_.padded_experts) return padded_moe(b, x);
  const V given = x;
  if (moe.input_jitter) x = jittered(x, OpKind::mul);
  V flat = p_.on_storage_of(x, {tokens, spec_.hidden}, dtype(x), false);
  emit(OpKind::view, {x}, {flat});
  if (moe.input_jitter) flat = jittered(flat, OpKind::mul_of_view);
  const bool first = model::class_facts(spec_.family).shared == model::SharedMlp::first;
  const bool runs_shared = moe.shared_gate || (first && moe.shared_intermediate > 0);
  const V shared = runs_shared ? gated_mlp(b, flat) : ir::no_id;
  const Routed routed = route(b, flat);
  const V logits = routed.logits, weights = routed.weights, experts = routed.experts;
  if (balances_) recorded_logits_.push_back(logits);

  V y{};
  if (config_.layout.ep > 1) {
    y = dispatched_experts(b, flat, routed);
    leaf_ = Module::mlp;
    hold({given, x});
  } else {
    leaf_ = Module::experts;
    y = sorted_experts(b, flat, experts, weights, {given, x});
  }
  hold_all(routed.locals);
  if (shared != ir::no_id && !moe.shared_gate) {
    leaf_ = Module::mlp;
    const V own = y;
    y = binary(OpKind::add, own, shared);
    hold({own, shared, given});
    hold_all(routed.locals);
  } else if (shared != ir::no_id) {
    leaf_ = Module::mlp;
    const V share = unary(OpKind::sigmoid, linear(flat, b.shared_gate));
    const V weighted_share = binary(OpKind::mul, share, shared);
    const V own = y;
    y = binary(OpKind::add, own, weighted_share);
    hold({own, shared, weighted_share, given});
    hold_all(routed.locals);
  }
  y = p_.reshape(y, shape(x));
  if (moe.shared_intermediate > 0 && shared == ir::no_id) {
    const V own = y, fed = gated_mlp(b, x);
    leaf_ = Module::mlp;
    y = binary(OpKind::add, own, fed);
    hold({own, x, logits, weights, experts});
  }
  return y;
}

}  // namespace ac_advisor::passes
