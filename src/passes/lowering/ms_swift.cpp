// ms-swift v4.6: rlhf_trainers/{rlhf_mixin,dpo_trainer,kto_trainer}.py, over TRL v0.29's classes;
// trl/trainer/utils.py, selective_log_softmax of fp32. Logits are whole, in fp32, of the tokens
// that are scored; their log-sum-exp is made row by row.
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
  const V kept = sliced(hidden_, {all[0], tokens, all[2]},
                        ir::Slice{static_cast<std::int32_t>(config_.run.seq - tokens), 1});
  hold({hidden_});
  hidden_ = unary(OpKind::clone, kept);
}

/// torch.logsumexp of a row's logits (tokens, V). Backward: grad * (logits - result).exp(), whose
/// temporaries live to its end.
ir::ValueId Lowering::log_sum_of_row(V logits) {
  const Shape all = shape(logits), each{all[0], 1};
  const V largest = out(each, DType::f32, false), shifted = out(all, DType::f32, false);
  emit(OpKind::amax, {logits}, {largest});
  const V infinite = make_int(OpKind::compare, each, DType::u8, {unary(OpKind::abs, largest)},
                              ir::Compare{0.0, ir::Comparison::equal});
  emit(OpKind::masked_fill, {largest, infinite},
       {p_.on_storage_of(largest, each, DType::f32, true)});
  emit(OpKind::add, {logits, largest}, {shifted}, ir::Add{-1.0});
  const V powers = p_.on_storage_of(shifted, all, DType::f32, true);
  emit(OpKind::exp_of, {shifted}, {powers});
  const V column = out(each, DType::f32, false), total = p_.reshape(column, {all[0]});
  emit(OpKind::sum, {powers}, {column});
  emit(OpKind::log, {total}, {p_.on_storage_of(total, each, DType::f32, true)});
  emit(OpKind::add, {total, largest}, {p_.on_storage_of(total, each, DType::f32, true)});
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

/// concatenated_forward, KTOTrainer.forward: what each row's tokens add up to, on this object; of
/// DPO's also what it logs of them.
ir::ValueId Lowering::totals_by_swift() {
  const bool pairs = config_.task.kind == Task::dpo;
  const Shape given = shape(m_.labels);
  const V counted = make_int(OpKind::cast, given, DType::i32,
                             {make_int(OpKind::compare, given, DType::u8, {m_.labels})});
  const V first = make_int(OpKind::amax, {given[0]}, DType::i64, {counted});
  emit(OpKind::host_read, {make_int(OpKind::amax, {}, DType::i64, {first})}, {});
  keep_scored_rows();
  const V logits = returned_logits();
  const Shape each{shape(logits)[0], shape(logits)[1]};
  const V rolled = make_int(OpKind::clone, each, DType::i64, {m_.labels});
  const V mask = make_int(OpKind::compare, each, DType::u8, {rolled},
                          ir::Compare{-100.0, ir::Comparison::not_equal});
  const V targets = make_int(OpKind::clone, each, DType::i64, {rolled});
  const auto without_prompt = [&](V x) {
    const V prompt = make_int(OpKind::compare, each, DType::u8, {mask});
    emit(OpKind::masked_fill, {x, prompt}, {p_.on_storage_of(x, each, dtype(x), true)});
  };
  without_prompt(targets);
  const V means = out(each, DType::f32, false);
  emit(OpKind::mean, {logits}, {means});
  const V log_probs = log_probs_by_row(logits, targets);
  without_prompt(means);
  const V prompt = make_int(OpKind::compare, each, DType::u8, {mask});
  make_int(OpKind::masked_fill, each, DType::f32, {log_probs, prompt});
  hold({logits, rolled, targets});
  const Shape half{each[0] / 2, each[1]};
  const auto mean_of_scored = [&](V of, std::int64_t side) {  // x[:n][mask[:n]].mean()
    const V scored = out({half.numel()}, DType::f32, false);
    emit(OpKind::index,
         {p_.narrow(of, 0, side * half[0], half[0]), p_.narrow(mask, 0, side * half[0], half[0])},
         {scored});
    mean_to_host(scored);
  };
  if (pairs) make_int(OpKind::sum, {each[0]}, DType::i64, {mask});
  if (pairs && owner_ == ir::Owner::policy) mean_of_scored(log_probs, 0);  // nll_loss
  const V total = sum_of_row(log_probs);
  if (pairs)
    for (const std::int64_t side : {0, 1}) mean_of_scored(means, side);
  else
    make_int(OpKind::sum, {each[0]}, DType::f32, {means});
  hold({mask, means, log_probs});
  return total;
}

/// get_batch_loss_metrics: losses by their weights; rewards and what else is logged, each on the
/// host.
ir::ValueId Lowering::loss_of_pairs_by_swift(V said, V reference) {
  const auto policy = halves(said), by = halves(reference);
  const auto weighed = [&](V x) {
    return unary(OpKind::add_scalar, unary(OpKind::mul_scalar, x, ir::Number{1.0}));
  };
  phase_ = ir::Phase::loss;
  leaf_ = ir::Module::loss;
  const V losses = weighed(sigmoid_loss(policy[0], policy[1], by));
  for (const std::size_t side : {0, 1}) {
    const V gained = out(shape(losses), DType::f32, false);
    emit(OpKind::add, {policy[side], by[side]}, {gained}, ir::Add{-1.0});
    mean_to_host(weighed(unary(OpKind::mul_scalar, gained, ir::Number{0.1})));
    mean_to_host(gained);
    mean_to_host(gained);
  }
  const V better = make_int(OpKind::compare, shape(losses), DType::u8, {by[0], by[1]});
  mean_to_host(make_int(OpKind::cast, shape(losses), DType::f32, {better}));
  mean_to_host(make_int(OpKind::add, shape(losses), DType::f32, {by[0], by[1]}));
  const V mean = mean_loss(losses);
  hold({losses, better});
  return mean;
}

void Lowering::loss_by_swift() {
  const V said = totals_by_swift();
  std::vector<V> held;
  if (config_.task.kind == Task::dpo) {
    const V reference = whole_total_apart(ir::Owner::reference, held);
    s_.loss = loss_of_pairs_by_swift(said, reference);
  } else {
    const V mismatched = mismatched_log_probs(ir::Owner::reference);
    const V reference = whole_total_apart(ir::Owner::reference, held);
    s_.loss = loss_of_sides(said, reference, mismatched, held);
  }
  hold_all(held);
  s_.outputs = {said};
}

}  // namespace ac_advisor::passes
