// LLaMA-Factory v0.9.5: train/dpo/trainer.py, CustomDPOTrainer (pref_loss sigmoid, orpo, simpo);
// train/kto/trainer.py, CustomKTOTrainer; train/rm/trainer.py, PairwiseTrainer;
// train/trainer_utils.py, get_batch_logps. Logits are whole, in fp32, and so is their log-softmax.
// TRL v0.24, trainer/dpo_trainer.py and kto_trainer.py, have the losses of a number a row.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

namespace {

constexpr double beta = 0.1;
constexpr ir::Add minus{-1.0};

}  // namespace

/// nested_detach(batch, clone=True): a forward has its own copies of ids, mask and labels.
void Lowering::clone_batch() {
  leaf_ = Module::root;
  given_ids_ = m_.ids;
  const auto copy = [&](V x) { return make_int(OpKind::clone, shape(x), DType::i64, {x}); };
  m_.ids = copy(m_.ids);
  beside_decoder_.push_back(copy(given_ids_));  // the attention mask, as long
  labels_ = copy(labels_);
}

void Lowering::drop_copies() {
  hold({m_.ids, labels_});
  m_.ids = given_ids_;
}

/// get_batch_logps: of logits (rows, tokens, V) in fp32 what the targets' log-probabilities add up
/// to, and how many targets count, (rows) each. The logits less their last token are no block of
/// memory, so log_softmax reads a copy of them.
Lowering::RowSums Lowering::row_sums(V logits) {
  const std::int64_t rows = config_.run.batch, tokens = config_.run.seq - 1;
  const ir::Shape each{rows, tokens};
  const V targets = make_int(OpKind::clone, each, DType::i64, {labels_});
  const V mask = make_int(OpKind::compare, each, DType::u8, {targets},
                          ir::Compare{-100.0, ir::Comparison::not_equal});
  const V elsewhere = make_int(OpKind::compare, each, DType::u8, {targets},
                               ir::Compare{-100.0, ir::Comparison::equal});
  make_int(OpKind::fill, {}, DType::i64, {}, ir::Number{0.0});
  const V counted = p_.on_storage_of(targets, each, DType::i64, true);
  emit(OpKind::masked_fill, {targets, elsewhere}, {counted});
  const V seen = sliced(logits, {rows, tokens, spec_.vocab}, ir::Slice{0, 1});
  const V log_probs = unary(OpKind::log_softmax, unary(OpKind::clone, seen));
  const V found = out(each, dtype(log_probs), grad(log_probs));
  emit(OpKind::gather, {log_probs, counted}, {found});
  const V count = make_int(OpKind::sum, {rows}, DType::i64, {mask});
  const V scored = binary(OpKind::mul, found, mask);
  const V total = out({rows}, dtype(scored), grad(scored));
  emit(OpKind::sum, {scored}, {total});
  hold({counted, mask, found});
  return {total, count};
}

/// The model's logits, which its caller widens where accelerate has not.
ir::ValueId Lowering::wide_logits() {
  const V made = model_logits();
  hold({hidden_});
  end_autocast();
  return cast(made, DType::f32);
}

/// Metrics: a mean that goes to the host.
void Lowering::mean_to_host(V x) { emit(OpKind::mean, {x}, {out({}, DType::f32, false)}); }

/// KTOTrainer.forward and concatenated_forward under torch.no_grad, by the reference or the policy.
Lowering::Answers Lowering::answers_of(ir::Owner owner) {
  Answers answers;
  apart(owner, [&](Lowering& forward) {
    forward.labels_ = m_.labels;
    forward.phase_ = Phase::loss;
    forward.clone_batch();
    forward.backbone();
    answers.logits = forward.wide_logits();
    const RowSums sums = forward.row_sums(answers.logits);
    answers.total = sums.total;
    forward.drop_copies();
  });
  return answers;
}

/// dpo_loss with "sigmoid" and no label smoothing, which is computed as if there were some.
ir::ValueId Lowering::sigmoid_loss(V chosen, V rejected, const std::array<V, 2>& reference) {
  const auto ratio = [&](V policy, V by) {
    return binary(OpKind::add, policy, unary(OpKind::mul_scalar, by, ir::Number{1.0}), minus);
  };
  const V chosen_ratio = ratio(chosen, reference[0]),
          rejected_ratio = ratio(rejected, reference[1]);
  const V margin = binary(OpKind::add, binary(OpKind::add, chosen, rejected, minus),
                          binary(OpKind::add, reference[0], reference[1], minus), minus);
  const auto smoothed = [&](double scale, double share) {
    const V likelihood =
        unary(OpKind::log_sigmoid, unary(OpKind::mul_scalar, margin, ir::Number{scale}));
    return unary(OpKind::mul_scalar, likelihood, ir::Number{share});
  };
  const V likely = unary(OpKind::neg, smoothed(beta, 1.0));
  const V losses = binary(OpKind::add, likely, smoothed(-beta, 0.0), minus);
  hold({chosen_ratio, rejected_ratio, margin, losses});
  return losses;
}

/// odds_ratio_loss and simpo_loss, of averages.
ir::ValueId Lowering::loss_without_reference(V chosen, V rejected) {
  const V ratio = unary(OpKind::neg, unary(OpKind::log_sigmoid, log_odds(chosen, rejected)));
  if (config_.task.kind == Task::simpo) return ratio;
  return binary(OpKind::add, unary(OpKind::neg, chosen), ratio, ir::Add{beta});
}

/// Of pairs: chosen rows first.
void Lowering::loss_of_pairs() {
  const bool compares = config_.task.kind == Task::dpo;
  const V logits = wide_logits();
  const RowSums sums = row_sums(logits);
  if (compares) drop_copies();
  const V said = compares ? sums.total : binary(OpKind::div, sums.total, sums.count);
  const auto [chosen, rejected] = halves(said);
  V losses = ir::no_id;
  if (compares) {
    hold({unary(OpKind::div, chosen, ir::Number{1.0})});  // chosen_logps_avg
    const Answers reference = answers_of(ir::Owner::reference);
    hold({reference.logits});
    leaf_ = Module::loss;
    losses = sigmoid_loss(chosen, rejected, halves(reference.total));
  } else {
    losses = loss_without_reference(chosen, rejected);
  }
  for (int figure = 0; figure < 6; ++figure) mean_to_host(losses);
  for (int side = 0; side < 2; ++side) mean_to_host(logits);
  s_.loss = mean_loss(losses);
  hold({logits, said, losses});
  s_.outputs = {logits};
}

/// The good answers' logits and the bad ones', copied apart.
std::array<ir::ValueId, 2> Lowering::logits_by_answer(V logits) {
  const std::int64_t rows = config_.run.batch, good = rows / 2;
  std::array<V, 2> sides{};
  for (std::size_t side = 0; side < 2; ++side) {
    const V tags = make_int(OpKind::fill, {rows}, DType::u8, {});
    const std::int64_t count = side == 0 ? good : rows - good;
    sides[side] = out({count, config_.run.seq, spec_.vocab}, dtype(logits), false);
    emit(OpKind::index, {logits, tags}, {sides[side]});
  }
  return sides;
}

/// concatenated_forward without gradients by the reference: of the answers, then of the others'.
std::array<ir::ValueId, 2> Lowering::reference_answers() {
  const Answers own = answers_of(ir::Owner::reference);
  const Answers others = answers_of(ir::Owner::reference);
  hold({others.logits});
  const std::array<V, 2> sides = logits_by_answer(own.logits);
  hold({own.logits, sides[0], sides[1]});
  return {own.total, others.total};
}

/// Rows whose answers are good or bad. What an answer to another prompt is by the policy comes
/// after its own forward.
void Lowering::loss_of_answers() {
  const V logits = wide_logits();
  const V said = row_sums(logits).total;
  drop_copies();
  const Answers others = answers_of(ir::Owner::no_grad);
  hold({others.logits});
  const std::array<V, 2> sides = logits_by_answer(logits);
  hold({logits});
  const auto [reference, mismatched] = reference_answers();
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V apart = binary(OpKind::add, others.total, mismatched, minus);
  const V divergence = unary(OpKind::clamp, mean_loss(apart), ir::Clamp{0.0, 1e30});
  const V beyond =
      binary(OpKind::add, binary(OpKind::add, said, reference, minus), divergence, minus);
  const V chance = unary(OpKind::sigmoid, unary(OpKind::mul_scalar, beyond, ir::Number{beta}));
  const V losses = unary(OpKind::add_scalar, unary(OpKind::neg, chance));
  for (const V side : sides) mean_to_host(side);
  for (int figure = 0; figure < 4; ++figure) mean_to_host(losses);
  s_.loss = mean_loss(unary(OpKind::mul_scalar, losses, ir::Number{1.0}));
  hold({sides[0], sides[1], said, others.total, divergence, losses});
  s_.outputs = {logits};
}

/// ForCausalLMLoss without num_items_in_batch; its log-softmax.
ir::ValueId Lowering::unread_loss(V logits) {
  const V wide = cast(logits, DType::f32), labels = shifted_labels(true);
  const V flat = p_.reshape(wide, {config_.run.batch * config_.run.seq, spec_.vocab});
  const V loss = cross_entropy(flat, labels);
  const V log_probs = p_.input(p_.op(last_op()), 0);
  hold({wide, padded_labels_, loss});
  return log_probs;
}

/// train/rm/trainer.py, PairwiseTrainer.compute_loss; TRL v0.24, models/modeling_value_head.py,
/// AutoModelForCausalLMWithValueHead.forward: the batch has labels, so the model computes the loss
/// of the next tokens, too, whose log-softmax lives as long as that does. Nobody reads it, nor the
/// logits, which are widened once more; the output has the hidden states of all blocks.
void Lowering::loss_of_values() {
  constexpr double summary_dropout = 0.1;
  const std::int64_t pairs = config_.run.batch / 2, tokens = config_.run.seq;
  const V made = model_logits();
  const V log_probs = unread_loss(made);
  leaf_ = Module::lm_head;
  const V wide = cast(dropped(hidden_, summary_dropout), DType::f32);
  const V value = base_linear(wide, m_.value_head);
  hold({wide});
  leaf_ = Module::loss;
  const V logits = cast(made, DType::f32);
  hold({made, hidden_});
  hold_all(hidden_states_);
  end_autocast();
  const V values = cast(value, DType::f32);
  hold({logits});
  const auto sides = halves(p_.reshape(values, {2 * pairs, tokens}));
  std::array<V, 2> scores{};
  for (std::size_t side = 0; side < 2; ++side) {
    const V length =
        make_int(OpKind::sum, {pairs, 1}, DType::i64, {p_.narrow(m_.ids, 0, 0, pairs)});
    const V last = make_int(OpKind::add_scalar, {pairs, 1}, DType::i64, {length});
    scores[side] = out({pairs, 1}, DType::f32, grad(values));
    emit(OpKind::gather, {sides[side], last}, {scores[side]});
  }
  const V margin = binary(OpKind::add, scores[0], scores[1], minus);
  s_.loss = unary(OpKind::neg, mean_loss(unary(OpKind::log_sigmoid, margin)));
  hold({values, scores[0], scores[1], log_probs});
  s_.outputs = {values};
}

void Lowering::loss_llamafactory() {
  switch (config_.task.kind) {
    case Task::kto:
      return loss_of_answers();
    case Task::reward:
      return loss_of_values();
    default:
      return loss_of_pairs();
  }
}

}  // namespace ac_advisor::passes
