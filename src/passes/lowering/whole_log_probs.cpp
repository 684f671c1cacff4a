// TRL v1.16, experimental/orpo/orpo_trainer.py and experimental/cpo/cpo_trainer.py (loss "simpo",
// cpo_alpha 0): get_batch_loss_metrics, of whole logits; kernels/logprob_entropy.py.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

/// Of logits (rows, tokens, V), (rows, tokens) each. The logits are saved, and backward makes a
/// gradient as large as they are, in one kernel.
Lowering::TokenScores Lowering::selected_log_probs(V logits, V targets) {
  const Shape each = shape(targets);
  const V log_probs = out(each, DType::f32, false), entropy = out(each, DType::f32, false),
          log_sum = out(each, DType::f32, false), expected = out(each, DType::f32, false);
  emit(OpKind::generated, {logits, targets}, {log_probs, entropy, log_sum, expected},
       ir::Generated{});
  ir::CompiledGraph g;  // logits, targets, log-sum-exp, expected logit; the gradient
  g.made = {{shape(logits), dtype(logits), -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, Module::loss, {0, 1, 2, 3, 4}, {5}}};
  g.results = {5, -1, -1, -1};
  return {node(OpKind::autograd_function, {logits, targets, log_sum, expected}, log_probs,
               std::move(g)),
          entropy};
}

/// The model's, as accelerate returns them: convert_outputs_to_fp32 comes with its autocast.
ir::ValueId Lowering::returned_logits() {
  const V made = model_logits();
  hold({hidden_});
  end_autocast();
  return config_.precision.autocast ? cast(made, DType::f32) : made;
}

/// ORPO: the mean negative log-likelihood of the chosen rows, prompt and answer.
ir::ValueId Lowering::chosen_loss(V logits, V labels) {
  const std::int64_t pairs = config_.run.batch / 2, s = config_.run.seq - 1, v = spec_.vocab;
  const V chosen = sliced(logits, {pairs, s + 1, v}, ir::Slice{0, 0});
  const V copy = unary(OpKind::clone, sliced(chosen, {pairs, s, v}, ir::Slice{0, 1}));
  const V targets = make_int(OpKind::clone, {pairs, s}, DType::i64, {labels});
  const V log_probs = unary(OpKind::log_softmax, p_.reshape(copy, {pairs * s, v}));
  const V loss = out({}, dtype(log_probs), true), weight = out({}, dtype(log_probs), false);
  emit(OpKind::nll_loss, {log_probs, targets}, {loss, weight}, ir::NllLoss{});
  hold({copy, targets});
  return loss;
}

namespace {

constexpr double beta = 0.1;

}  // namespace

/// Of averages, before their sigmoid: ORPO's odds, SimPO's margin.
ir::ValueId Lowering::log_odds(V chosen, V rejected) {
  constexpr ir::Add minus{-1.0};
  const V margin = binary(OpKind::add, chosen, rejected, minus);
  if (config_.task.kind == Task::simpo)
    return unary(OpKind::mul_scalar, unary(OpKind::add_scalar, margin), ir::Number{beta});
  // log1mexp(chosen) - log1mexp(rejected)
  const auto against = [&](V x) {
    return unary(OpKind::log, unary(OpKind::neg, unary(OpKind::exp_of, x)));
  };
  const V of_chosen = against(chosen), of_rejected = against(rejected);
  return binary(OpKind::add, margin, binary(OpKind::add, of_chosen, of_rejected, minus), minus);
}

/// Means of the answers' log-probabilities.
void Lowering::loss_of_logits() {
  const bool orpo = config_.task.kind == Task::orpo;
  const std::int64_t rows = config_.run.batch, s = config_.run.seq - 1;
  const V logits = returned_logits();
  const V labels = make_int(OpKind::clone, {rows, s + 1}, DType::i64, {m_.labels});
  const V nll = orpo ? chosen_loss(logits, labels) : ir::no_id;
  const V targets = make_int(OpKind::clone, {rows, s}, DType::i64, {m_.labels});
  const V seen = sliced(logits, {rows, s, spec_.vocab}, ir::Slice{0, 1});
  const V mask = make_int(OpKind::compare, {rows, s}, DType::u8, {targets},
                          ir::Compare{-100.0, ir::Comparison::not_equal});
  const auto [log_probs, entropy] = selected_log_probs(seen, targets);
  hold({entropy});
  const V scored = binary(OpKind::mul, log_probs, mask);
  V total = out({rows}, DType::f32, grad(scored));
  emit(OpKind::sum, {scored}, {total});
  const V count = make_int(OpKind::sum, {rows}, DType::i64, {mask});
  hold({mask, targets});
  const auto [chosen, rejected] = halves(binary(OpKind::div, total, count));
  const V margin = log_odds(chosen, rejected);
  V mean = mean_loss(unary(OpKind::neg, unary(OpKind::log_sigmoid, margin)));
  if (orpo) mean = binary(OpKind::add, nll, mean, ir::Add{beta});
  s_.loss = mean;
  hold({logits, labels, margin});
  s_.outputs = {logits};
}

}  // namespace ac_advisor::passes
