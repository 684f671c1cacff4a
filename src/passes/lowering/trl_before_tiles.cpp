// TRL v1.14, trainer/dpo_trainer.py and kto_trainer.py, _compute_loss without use_liger_kernel,
// with the losses "sigmoid" and "kto": logits are whole, the policy's and the reference's. From
// v1.15 on the LM head makes them in tiles (preference.cpp, kto.cpp).
#include <algorithm>
#include <vector>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

bool Lowering::makes_whole_logits() const {
  return config_.runtime.framework == "trl" && config_.task.against_reference() &&
         config_.memory.loss == LossKind::ce;
}

/// selective_log_softmax_and_entropy of a forward's logits, on this object.
Lowering::WholeScores Lowering::whole_scores() {
  const std::int64_t rows = config_.run.batch, s = config_.run.seq - 1;
  WholeScores scores;
  scores.logits = returned_logits();
  if (balances_) {
    scores.balance = balance_loss(true);
    hold_all(recorded_logits_);
  }
  const V seen = sliced(scores.logits, {rows, s, spec_.vocab}, ir::Slice{0, 1});
  scores.of_tokens = selected_log_probs(seen, p_.narrow(m_.ids, 1, 1, s));
  return scores;
}

/// per_token_logps.sum(dim=1)
ir::ValueId Lowering::sum_of_row(V log_probs) {
  const V total = out({config_.run.batch}, DType::f32, grad(log_probs));
  emit(OpKind::sum, {log_probs}, {total});
  return total;
}

/// The same of a forward without gradients, by the reference or the policy: what each row's tokens
/// add up to. What the caller's frame has of the output goes to `held`.
ir::ValueId Lowering::whole_total_apart(ir::Owner owner, std::vector<V>& held) {
  WholeScores of;
  V by_rows = ir::no_id;
  apart(owner, [&](Lowering& scoring) {
    scoring.before_step_ = owner == ir::Owner::no_grad;
    scoring.phase_ = scoring.before_step_ ? Phase::forward : Phase::loss;
    scoring.backbone();
    if (by_swift())
      by_rows = scoring.totals_by_swift();
    else
      of = scoring.whole_scores();
  });
  if (by_swift()) return by_rows;
  hold({of.of_tokens.entropy});
  held.insert(held.end(), {of.logits, of.of_tokens.log_probs});
  return sum_of_row(of.of_tokens.log_probs);
}

/// logits[mask.bool()].mean(-1).sum(), of as many tokens as the mask has.
void Lowering::mean_of_logits(V logits, std::int64_t tokens) {
  const V mask =
      make_int(OpKind::cast, {shape(logits)[0], shape(logits)[1]}, DType::u8, {m_.labels});
  const V scored = out({tokens, spec_.vocab}, dtype(logits), false);
  emit(OpKind::index, {logits, mask}, {scored});
  const V means = out({tokens}, dtype(logits), false);
  emit(OpKind::mean, {scored}, {means});
  whole_sum(means);
  whole_sum(mask);
}

/// The entropy of the tokens that count, and how many there are.
void Lowering::logged_entropy(const WholeScores& own) {
  const V mask = p_.narrow(m_.labels, 1, 1, config_.run.seq - 1);
  const V counted = whole_sum(binary(OpKind::mul, own.of_tokens.entropy, mask)),
          all = whole_sum(mask);
  emit(OpKind::compare, {all}, {out({}, DType::u8, false)},
       ir::Compare{0.0, ir::Comparison::greater});
  emit(OpKind::div, {counted, all}, {out({}, DType::f32, false)});
  whole_sum(m_.labels);  // of the attention mask, which is as long
}

/// Of the chosen answers: which of their targets are the likeliest.
void Lowering::logged_accuracy(V logits) {
  const ir::Shape each{shape(logits)[0], shape(logits)[1]};
  const V likeliest = make_int(OpKind::amax, each, DType::i64, {logits});
  const V right = make_int(OpKind::compare, each, DType::u8, {likeliest, m_.ids},
                           ir::Compare{0.0, ir::Comparison::equal});
  const V scored = make_int(OpKind::compare, each, DType::u8, {right, m_.labels},
                            ir::Compare{0.0, ir::Comparison::both});
  const V correct = whole_sum(scored), all = whole_sum(m_.labels);
  emit(OpKind::div, {correct, all}, {out({}, DType::f32, false)});
}

void Lowering::loss_dpo_of_logits() {
  const std::int64_t pairs = config_.run.batch / 2, s = config_.run.seq - 1,
                     scored = pairs * std::min(s, config_.run.seq - config_.task.prompt);
  const WholeScores own = whole_scores();
  const std::array<V, 2> policy = halves(sum_of_row(own.of_tokens.log_probs));
  std::vector<V> held{own.logits, own.of_tokens.log_probs, own.of_tokens.entropy};
  const std::array<V, 2> reference = config_.task.runs_reference()
                                         ? halves(whole_total_apart(ir::Owner::reference, held))
                                         : s_.precomputed;
  const V loss = sigmoid_loss_of_pairs(policy, reference, held);
  s_.loss = with_balance(loss, own.balance);
  logged_entropy(own);
  std::array<V, 2> sides{};
  for (std::size_t side = 0; side < 2; ++side)
    sides[side] = p_.narrow(
        p_.narrow(own.logits, 0, static_cast<std::int64_t>(side) * pairs, pairs), 1, 0, s);
  for (const V side : sides) mean_of_logits(side, scored);
  logged_accuracy(sides[0]);
  hold_all(held);
  s_.outputs = {own.logits};
}

void Lowering::loss_kto_of_logits() {
  const std::int64_t rows = config_.run.batch, good = rows / 2, s = config_.run.seq - 1,
                     tokens = std::min(s, config_.run.seq - config_.task.prompt);
  const WholeScores own = whole_scores();
  const V said = sum_of_row(own.of_tokens.log_probs);
  std::vector<V> held{own.logits, own.of_tokens.log_probs, own.of_tokens.entropy};
  V reference = s_.precomputed[0], mismatched = s_.precomputed[1];
  if (config_.task.runs_reference()) {
    mismatched = mismatched_log_probs(ir::Owner::reference);
    reference = whole_total_apart(ir::Owner::reference, held);
  }
  const V loss = loss_of_sides(said, reference, mismatched, held);
  logged_entropy(own);
  std::array<V, 2> sides{};  // index_select, which copies
  for (std::size_t side = 0; side < 2; ++side) {
    sides[side] = out({side == 0 ? rows - good : good, s, spec_.vocab}, dtype(own.logits), false);
    emit(OpKind::index, {own.logits, m_.ids}, {sides[side]});
    held.push_back(sides[side]);
  }
  for (const V side : sides) mean_of_logits(side, shape(side)[0] * tokens);
  s_.loss = with_balance(loss, own.balance);
  hold_all(held);
  s_.outputs = {own.logits};
}

}  // namespace ac_advisor::passes
