// TRL v1.16, trainer/kto_trainer.py: KTOTrainer._compute_loss with the loss "kto". A batch is rows
// whose answers are good or bad; each prompt is also given the next row's answer, whose
// log-probabilities, by the model and by its reference, say how far these are apart.
#include <utility>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

/// _compute_kl_logps: of answers to other prompts, one number a row, under torch.no_grad.
ir::ValueId Lowering::mismatched_log_probs(ir::Owner owner) {
  // The trainer's own ops around a reference's forward part it from the next one's.
  const ir::Owner around =
      std::exchange(owner_, owner == ir::Owner::no_grad ? owner : ir::Owner::policy);
  V total = ir::no_id;
  if (makes_whole_logits() || by_swift()) {
    std::vector<V> output;
    total = whole_total_apart(owner, output);
    hold_all(output);
  } else {
    const V labels = scored_labels();
    const V log_probs = log_probs_of(owner, labels);
    total = sum_of_sequence(log_probs);
    hold({labels, log_probs});
  }
  p_.value(total).requires_grad = false;
  owner_ = around;
  return total;
}

/// Of what the rows' answers add up to, by the policy and by its reference, and of how far they are
/// apart on others' answers.
ir::ValueId Lowering::loss_of_sides(V said, V reference, V mismatched, std::vector<V>& held) {
  constexpr double beta = 0.1;
  constexpr ir::Add minus{-1.0};
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V apart = binary(OpKind::add, mismatched_, mismatched, minus);
  const V divergence = unary(OpKind::clamp, mean_loss(apart), ir::Clamp{0.0, 1e30});
  // the good answers' and the bad ones', which are fewer rows each
  std::vector<V> sides;
  for (int side = 0; side < 2; ++side) {
    const V ratio = binary(OpKind::add, said, reference, minus);
    const V beyond = binary(OpKind::add, ratio, divergence, minus);
    const V chance = unary(OpKind::sigmoid, unary(OpKind::mul_scalar, beyond, ir::Number{beta}));
    const V loss = unary(OpKind::add_scalar, unary(OpKind::neg, chance));
    sides.push_back(unary(OpKind::mul_scalar, loss, ir::Number{1.0}));
    held.insert(held.end(), {ratio, loss});
  }
  held.insert(held.end(), {labels_, apart, divergence, mismatched_});
  return mean_loss(binary(OpKind::add, sides[0], sides[1], ir::Add{1.0}));
}

void Lowering::loss_kto() {
  const Scored of = fused_head(logged_by_head(false));
  hold({hidden_});
  hold({held_of_head_[0], held_of_head_[1], held_of_head_[3]});
  end_autocast();
  const V said = sum_of_sequence(of.log_probs);
  std::vector<V> held{of.log_probs, of.entropy, of.mean_logits, of.mask, of.loss};
  V reference = s_.precomputed[0], mismatched = s_.precomputed[1];
  if (config_.task.runs_reference()) {
    mismatched = mismatched_log_probs(ir::Owner::reference);
    reference = sum_of_sequence(reference_log_probs(held));
  }
  s_.loss = loss_of_sides(said, reference, mismatched, held);
  // entropy and mean logits of the tokens that count
  for (const V figure : {of.entropy, of.mean_logits, of.mean_logits}) whole_sum(figure);
  for (int i = 0; i < 4; ++i) whole_sum(of.mask);
  s_.loss = with_balance(s_.loss, of.balance);
  hold_all(held);
  s_.outputs = {of.log_probs};
}

}  // namespace ac_advisor::passes
