// ms-swift v4.6: rlhf_trainers/{rlhf_mixin,dpo_trainer,kto_trainer}.py, over TRL v0.29's classes;
// trl/trainer/utils.py, selective_log_softmax of fp32. Logits are whole, in fp32, of the tokens that
// are scored; their log-sum-exp is made row by row.
#include <algorithm>
#include <vector>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Shape;

bool Lowering::by_swift() const {
  return config_.runtime.framework == "ms-swift" && !config_.task.supervised();
}

/// prepare_logits_to_keep: the last token of the prompt says the first that is scored.
void Lowering::keep_scored_rows() {
  const std::int64_t tokens = std::min(config_.run.seq, config_.run.seq - config_.task.prompt + 1);
  if (tokens == config_.run.seq) return;
  const Shape all = shape(hidden_);
  const V kept =
      sliced(hidden_, {all[0], tokens, all[2]},
             ir::Slice{static_cast<std::int32_t>(config_.run.seq - tokens), 1});
  hold({hidden_});
  hidden_ = unary(OpKind::clone, kept);
}

/// torch.logsumexp of a row's logits (tokens, V). Backward: grad * (logits - result).exp(), whose
/// temporaries live to its end.
ir::ValueId Lowering::log_sum_of_row(V logits) {
  const Shape all = shape(logits), each{all[0]};
  const V largest = out(each, DType::f32, false), shifted = out(all, DType::f32, false);
  emit(OpKind::amax, {logits}, {largest});
  emit(OpKind::add, {logits, largest}, {shifted}, ir::Add{-1.0});
  const V powers = p_.on_storage_of(shifted, all, DType::f32, true);
  emit(OpKind::exp_of, {shifted}, {powers});
  const V total = out(each, DType::f32, false);
  emit(OpKind::sum, {powers}, {total});
  hold({largest});
  if (!grad(logits)) return total;
  ir::CompiledGraph g;  // logits, result; its gradient
  g.made = {{all, DType::f32, -1}, {all, DType::f32, -1}, {all, DType::f32, -1}};
  g.launches = {{OpKind::add, ir::Add{-1.0}, leaf_, {0, 1}, {3}},
                {OpKind::exp_of, {}, leaf_, {3}, {4}},
                {OpKind::mul, {}, leaf_, {4, 2}, {5}},
                {OpKind::hold, {}, leaf_, {3, 4}, {}}};
  g.results = {5, -1};
  return node(OpKind::autograd_function, {logits, total}, total, std::move(g));
}

/// torch.gather, which saves the logits, too. Backward: zeros as large, then scatter_add_.
ir::ValueId Lowering::chosen_logits(V logits, V targets) {
  const Shape all = shape(logits), each{all[0], all[1]};
  const V chosen = out(each, DType::f32, false);
  emit(OpKind::gather, {logits, targets}, {chosen});
  if (!grad(logits)) return chosen;
  ir::CompiledGraph g;  // logits, targets; the gradient
  g.made = {{all, DType::f32, -1}, {all, DType::f32, 3}};
  g.launches = {{OpKind::fill, ir::Number{0.0}, leaf_, {}, {3}},
                {OpKind::scatter, {}, leaf_, {3, 1, 2}, {4}},
                {OpKind::hold, {}, leaf_, {0}, {}}};
  g.results = {4, -1};
  return node(OpKind::autograd_function, {logits, targets}, chosen, std::move(g));
}

/// selective_log_softmax, of logits (rows, tokens, V) in fp32.
ir::ValueId Lowering::log_probs_by_row(V logits, V targets) {
  const Shape all = shape(logits), each{all[0], all[1]};
  const V selected = chosen_logits(logits, targets);
  std::vector<V> rows, sums;
  for (std::int64_t row = 0; row < all[0]; ++row) {
    rows.push_back(p_.on_storage_of(logits, {all[1], all[2]}, DType::f32, false));
    p_.value(rows.back()).requires_grad = grad(logits);
  }
  p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{logits}, rows);
  for (const V row : rows) sums.push_back(log_sum_of_row(row));
  const V together = out(each, DType::f32, grad(logits));
  p_.emit(OpKind::cat, phase_, at(leaf_), sums, std::vector<V>{together});
  hold_all(sums);
  hold({selected});
  return binary(OpKind::add, selected, together, ir::Add{-1.0});
}

/// concatenated_forward, KTOTrainer.forward: what each row's tokens add up to, on this object.
ir::ValueId Lowering::totals_by_swift() {
  keep_scored_rows();
  const V logits = returned_logits();
  const Shape each{shape(logits)[0], shape(logits)[1]};
  const V targets = make_int(OpKind::clone, each, DType::i64, {m_.labels});
  const V mask = make_int(OpKind::compare, each, DType::u8, {targets},
                          ir::Compare{-100.0, ir::Comparison::not_equal});
  const V means = out(each, DType::f32, false);
  emit(OpKind::mean, {logits}, {means});
  const V log_probs = log_probs_by_row(logits, targets);
  const V total = sum_of_row(log_probs);
  hold({logits, targets, mask, means, log_probs});
  return total;
}

void Lowering::loss_by_swift() {
  const V said = totals_by_swift();
  std::vector<V> held;
  if (config_.task.kind == Task::dpo) {
    const V reference = whole_total_apart(ir::Owner::reference, held);
    s_.loss = sigmoid_loss_of_pairs(halves(said), halves(reference), held);
  } else {
    const V mismatched = mismatched_log_probs(ir::Owner::reference);
    const V reference = whole_total_apart(ir::Owner::reference, held);
    s_.loss = loss_of_sides(said, reference, mismatched, held);
  }
  hold_all(held);
  s_.outputs = {said};
}

}  // namespace ac_advisor::passes
