// PEFT v0.21, tuners/lora/layer.py: ParamWrapper, LoRA of a parameter that no linear layer has: a
// router's weight, or experts' in one tensor. Each forward parametrizes the module anew
// (torch.nn.utils.parametrize, v2.11): registering computes the adapted weight once to check it,
// and what the first read computes is cached until the outermost wrapper is done.
#include "lowering.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// update_layer; what is `fused` into one weight has as much more rank
/// (utils/transformers_weight_conversion.py).
LowRankValues Lowering::low_rank_of(V weight, std::int64_t fused, Module leaf) {
  const Shape s = shape(weight);
  const std::int64_t matrices = s.rank() == 3 ? s[0] : 1;
  const std::int64_t rank = config_.adapters.rank * fused * matrices;
  const DType type = lora_dtype(config_);
  const V a = trained({rank, s.back()}, type, leaf);
  return {a, trained({s[s.rank() - 2], rank}, type, leaf)};
}

/// get_delta_factors: of each expert B [out, rank] and A [rank, in], in the weight's dtype. In
/// memory B's experts are innermost.
std::array<ir::ValueId, 2> Lowering::delta_factors(V weight, const LowRankValues& l) {
  const std::int64_t experts = shape(weight)[0], width = shape(l.b)[0],
                     rank = shape(l.b)[1] / experts;
  const V stacked = p_.on_storage_of(l.b, {experts, width, rank}, dtype(l.b), false);
  p_.value(stacked).permuted = true;
  p_.value(stacked).requires_grad = true;
  emit(OpKind::view, {l.b}, {stacked});
  const V b = cast(stacked, dtype(weight));
  return {b, cast(p_.reshape(l.a, {experts, rank, shape(l.a).back()}), dtype(weight))};
}

/// _LoraFactorsProxy.forward; alpha is twice the rank.
ir::ValueId Lowering::folded(V weight, const std::array<V, 2>& factors) {
  const V y = out(shape(weight), dtype(weight), true);
  ir::Product product{static_cast<std::int32_t>(shape(factors[1])[1]), ir::Form::nn};
  product.alpha = 2;
  product.copies_first = true;
  emit(OpKind::baddbmm, {weight, factors[0], factors[1]}, {y}, product);
  return y;
}

/// _activate_lora around the experts, the wrapper of `down` outermost.
Lowering::ExpertWeights Lowering::adapted_weights(const Block& b) {
  ExpertWeights w;
  w.gate_up = b.experts_gate_up;
  w.down = b.experts_down;
  const auto around = [&](V weight, const LowRankValues& l, std::array<V, 2>& factors) {
    if (l.a == ir::no_id) return;
    factors = delta_factors(weight, l);
    w.held.insert(w.held.end(), factors.begin(), factors.end());
    folded(weight, factors);  // the check
  };
  around(w.down, b.down_adapter, w.of_down);
  around(w.gate_up, b.gate_up_adapter, w.of_gate_up);
  return w;
}

/// The first read of a weight that may be adapted.
ir::ValueId Lowering::read(V weight, const std::array<V, 2>& factors, std::vector<V>& held) {
  if (factors[0] == ir::no_id) return weight;
  held.push_back(folded(weight, factors));
  return held.back();
}

/// _LoraParameterProxy.forward of what Linear.get_delta_weight makes.
ir::ValueId Lowering::router_weight(const Block& b, std::vector<V>& held) {
  const LowRankValues& l = b.router_adapter;
  if (l.a == ir::no_id) return b.router;
  const V narrow_a = autocast(l.a), narrow_b = autocast(l.b);
  const V product = out(shape(b.router), dtype(narrow_a), true);
  emit(OpKind::mm, {narrow_b, narrow_a}, {product},
       ir::Product{static_cast<std::int32_t>(shape(l.a)[0]), ir::Form::nn});
  const V delta = cast(unary(OpKind::mul_scalar, product, ir::Number{2.0}), dtype(b.router));
  binary(OpKind::add, b.router, delta);  // the check
  const V weight = binary(OpKind::add, b.router, delta);
  held = {delta, weight};
  return weight;
}

}  // namespace ac_advisor::passes
