// verl v0.9.1, workers/engine/fsdp/transformer_impl.py: FSDPEngineWithLMHead, prepare_model_inputs
// and prepare_model_outputs with use_remove_padding; workers/utils/losses.py: ppo_loss with the
// policy loss "vanilla", value_loss; FSDPEngineWithValueHead of the critic. A micro-batch is its
// rows one after another, without padding.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

/// prepare_model_inputs: a temperature a token, and the next tokens (torch.roll).
void Lowering::verl_inputs() {
  leaf_ = Module::root;
  const std::int64_t tokens = config_.run.seq;
  const V temperature = make_int(OpKind::fill, {tokens}, DType::f32, {}, ir::Number{1.0});
  labels_ = make_int(OpKind::clone, {1, tokens}, DType::i64, {m_.ids});
  beside_decoder_.push_back(temperature);
}

/// flash-attn v2.8.3, ops/triton/cross_entropy.py: the targets' negative log-probabilities of
/// logits (tokens, V), in fp32. The logits are saved; their gradient is written into them, or where
/// something else reads them (`apart`) beside them.
ir::ValueId Lowering::flash_cross_entropy(V logits, V labels, bool apart) {
  const Shape each = shape(labels);
  const V losses = out(each, DType::f32, false), log_sum = out(each, DType::f32, false),
          z_losses = out(each, DType::f32, false);
  emit(OpKind::generated, {logits, labels}, {losses, log_sum, z_losses}, ir::Generated{});
  hold({z_losses});
  ir::CompiledGraph g;  // logits, labels, log-sum-exp, the losses' gradient; the logits'
  g.made = {{shape(logits), dtype(logits), apart ? -1 : 0}};
  g.launches = {{OpKind::generated, ir::Generated{}, Module::loss, {0, 1, 2, 3}, {4}}};
  g.results = {4, -1, -1};
  return node(OpKind::autograd_function, {logits, labels, log_sum}, losses, std::move(g));
}

/// A compiled entropy_from_logits: one kernel a row, which makes nothing as wide as they are; its
/// backward reads the logits again, and makes their gradient.
ir::ValueId Lowering::compiled_entropy(V logits) {
  const Shape each{shape(logits)[0]};
  const V entropy = out(each, DType::f32, false);
  if (!grad(logits) || config_.task.scores()) {
    emit(OpKind::generated, {logits}, {entropy}, ir::Generated{});
    return entropy;
  }
  const V most = out(each, DType::f32, false), sum = out(each, DType::f32, false);
  emit(OpKind::generated, {logits}, {entropy, most, sum}, ir::Generated{});
  ir::CompiledGraph g;  // logits, a row's maximum, its sum, the entropies' gradient; the logits'
  g.made = {{shape(logits), dtype(logits), -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, Module::loss, {0, 1, 2, 3}, {4}}};
  g.results = {4, -1, -1};
  return node(OpKind::autograd_function, {logits, most, sum}, entropy, std::move(g));
}

/// no_padding_2_padding: of all tokens' those that come before a completion's, (rows, tokens).
ir::ValueId Lowering::of_completions(V values) {
  const std::int64_t rows = config_.run.packing, tokens = config_.task.completion;
  const V padded = out({rows, tokens}, dtype(values), grad(values));
  emit(OpKind::clone, {sliced(values, {rows, tokens}, ir::Slice{})}, {padded});
  return padded;
}

/// agg_loss "token-mean".
ir::ValueId Lowering::token_mean(V x) {
  const V counted = unary(OpKind::mul_scalar, x, ir::Number{1.0});
  const V total = out({}, dtype(counted), grad(counted));
  emit(OpKind::sum, {counted}, {total});
  return unary(OpKind::div, total, ir::Number{static_cast<double>(shape(x).numel())});
}

/// compute_policy_loss_vanilla, and of a reference kl_penalty "low_var_kl".
ir::ValueId Lowering::policy_loss(V log_prob, V entropy) {
  const V before = p_.on_storage_of(log_prob, shape(log_prob), dtype(log_prob), false);
  const V ratio = unary(OpKind::exp_of,
                        unary(OpKind::clamp, binary(OpKind::add, log_prob, before, ir::Add{-1.0}),
                              ir::Clamp{-20.0, 20.0}));
  const V gain = unary(OpKind::neg, unary(OpKind::mul_scalar, ratio, ir::Number{1.0}));
  const V clipped = unary(
      OpKind::neg,
      unary(OpKind::mul_scalar, unary(OpKind::clamp, ratio, ir::Clamp{0.8, 1.2}), ir::Number{1.0}));
  // torch.maximum of two losses has as many tensors as torch.minimum, torch.where as torch.min
  const V worse = binary(OpKind::minimum, gain, clipped);
  const V bounded = binary(OpKind::minimum, worse, before);
  const V losses = binary(OpKind::minimum, worse, bounded);
  hold({before, ratio, gain, clipped, worse, bounded, losses});
  V loss = token_mean(losses);
  const auto add = [&](V part) {
    loss = binary(OpKind::add, loss, unary(OpKind::mul_scalar, token_mean(part), ir::Number{0.001}),
                  ir::Add{1.0});
    hold({part});
  };
  if (entropy != ir::no_id) add(entropy);
  if (config_.task.reference == Reference::none) return loss;
  const auto behind = [&] { return binary(OpKind::add, before, log_prob, ir::Add{-1.0}); };
  const V divergence =
      unary(OpKind::add_scalar,
            binary(OpKind::add, unary(OpKind::exp_of, behind()), behind(), ir::Add{-1.0}));
  add(divergence);
  return loss;
}

void Lowering::loss_verl() {
  const std::int64_t tokens = config_.run.seq;
  const bool scores = config_.task.scores(), reads = scores || config_.task.entropy_loss;
  const V made = model_logits();
  hold({hidden_});
  const V logits = p_.reshape(made, {tokens, spec_.vocab});
  p_.value(logits).requires_grad = grad(made);
  const V entropy = reads ? compiled_entropy(logits) : ir::no_id;
  const V losses = flash_cross_entropy(logits, p_.reshape(labels_, {tokens}), reads);
  const V log_probs = unary(OpKind::neg, losses);
  s_.outputs = {log_probs};
  if (scores) {
    hold({made, labels_, entropy, log_probs});
    s_.loss = ir::no_id;
    return;
  }
  const V padded = of_completions(log_probs);
  s_.loss = policy_loss(padded, entropy == ir::no_id ? entropy : of_completions(entropy));
  hold({made, labels_, log_probs, entropy});
}

/// core_algos.py, compute_value_loss: torch.min and torch.max clip the values.
ir::ValueId Lowering::value_loss(V values) {
  const V before = p_.on_storage_of(m_.labels, shape(values), DType::f32, false);
  const V low = unary(OpKind::add_scalar, before), high = unary(OpKind::add_scalar, before);
  const V clipped = binary(OpKind::minimum, binary(OpKind::minimum, values, high), low);
  const auto squared = [&](V x) {
    return unary(OpKind::pow, binary(OpKind::add, x, before, ir::Add{-1.0}), ir::Power{2.0});
  };
  const V losses = binary(OpKind::minimum, squared(values), squared(clipped));
  hold({low, high, clipped, losses});
  return unary(OpKind::mul_scalar, token_mean(losses), ir::Number{0.5});
}

/// GenericForTokenClassification: its dropout is 0, and a score of each token its value.
void Lowering::loss_critic() {
  leaf_ = Module::lm_head;
  const V scores = base_linear(hidden_, m_.value_head);
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  hold({hidden_});
  const V values = p_.reshape(scores, {config_.run.seq});
  p_.value(values).requires_grad = grad(scores);
  s_.outputs = {values};
  s_.loss = config_.task.scores() ? ir::no_id : value_loss(of_completions(values));
  hold({scores, labels_});
}

}  // namespace ac_advisor::passes
