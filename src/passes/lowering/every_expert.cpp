// transformers v5.23, modeling_llama4.py: a mixture whose experts all run on all tokens, which are
// multiplied by their scores before; those of experts that were not chosen are 0.
#include <limits>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// Llama4Router.forward: (tokens, experts), the chosen logits between minus infinity.
ir::ValueId Lowering::scattered_scores(const Block& b, V flat) {
  leaf_ = Module::router;
  const V logits = linear(flat, {b.router, ir::no_id});
  const auto [top, experts] = best_experts(logits);
  const V least = make_int(OpKind::fill, shape(logits), dtype(logits), {},
                           ir::Number{-std::numeric_limits<double>::infinity()});
  const V scattered = p_.on_storage_of(least, shape(logits), dtype(logits), true);
  p_.value(scattered).requires_grad = grad(top);
  emit(OpKind::scatter, {least, experts, top}, {scattered});
  const V scores = cast(unary(OpKind::sigmoid, cast(scattered, DType::f32)), dtype(logits));
  hold({scattered, top, experts});
  router_logits_ = logits;
  return scores;
}

/// Llama4TextMoe.forward, Llama4TextExperts.forward
ir::ValueId Lowering::every_expert(const Block& b, V x) {
  const auto& moe = *spec_.moe;
  const std::int64_t tokens = config_.run.batch * config_.run.seq, h = spec_.hidden,
                     rows = moe.experts * tokens;
  const V flat = p_.reshape(x, {tokens, h});
  const V scores = scattered_scores(b, flat);

  leaf_ = Module::experts;
  const Shape of_experts{moe.experts, tokens, h};
  const V wide = p_.on_storage_of(flat, of_experts, dtype(flat), false);
  emit(OpKind::expand, {flat}, {wide});
  const V copies = out(of_experts, dtype(flat), grad(flat));  // repeat
  emit(OpKind::clone, {wide}, {copies});
  const V by_expert = unary(OpKind::clone, scores);  // transposed, reshaped
  const V weighted =
      binary(OpKind::mul, p_.reshape(copies, {rows, h}), p_.reshape(by_expert, {rows, 1}));
  hold({copies});  // `routed_in`, until it is bound anew
  const V both = out({moe.experts, tokens, 2 * moe.intermediate}, dtype(x), true);
  emit(OpKind::bmm, {p_.reshape(weighted, of_experts), b.experts_gate_up}, {both},
       ir::Product{static_cast<std::int32_t>(h), ir::Form::nn});
  const auto [gate, up] = chunk(both);
  Chain chain{OpKind::swiglu, {}, {gate, up}, ir::no_id, ir::no_id, ir::SwiGlu{}};
  const V activated = activate(gate, &chain.ops);
  const V product = binary(OpKind::mul, up, activated);
  chain.ops.push_back(last_op());
  chain.output = product;
  s_.chains.push_back(std::move(chain));
  const V fed = out(of_experts, dtype(x), true);
  emit(OpKind::bmm, {product, b.experts_down}, {fed},
       ir::Product{static_cast<std::int32_t>(moe.intermediate), ir::Form::nn});
  hold({both, weighted});

  const V shared = gated_mlp(b, flat);
  leaf_ = Module::mlp;
  const V sum = out({tokens, h}, dtype(x), true);
  emit(OpKind::sum, {fed}, {sum}, ir::Sum{ir::SumOver::groups});
  const V y = added_in_place(shared, sum);
  hold({x, scores, weighted, fed});
  hold({attention_weights_});  // `_` of the block, bound anew
  attention_weights_ = router_logits_;
  return p_.reshape(y, shape(x));
}

}  // namespace ac_advisor::passes
