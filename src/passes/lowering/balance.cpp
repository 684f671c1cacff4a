// The loss that balances experts: transformers v5.23, models/mixtral/modeling_mixtral.py,
// load_balancing_loss_func, which all families of mixtures take over; utils/output_capturing.py
// keeps each router's logits for it. TRL v1.16, trainer/utils.py, add_fused_lm_head, and its
// trainers.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// How many tokens each expert was chosen for: by a histogram, or where a mask is given as sums of
/// what it says of each token.
void Lowering::count_tokens(Balance& of, V experts, V mask) {
  const std::int64_t all = spec_.moe->experts, chosen = shape(experts).numel();
  const V flat = p_.reshape(experts, {chosen});
  V counts{};
  if (mask == ir::no_id) {
    const V narrow = make_int(OpKind::cast, {chosen}, DType::i32, {flat});
    counts = make_int(OpKind::histc, {all}, DType::i32, {narrow},
                      ir::Histc{static_cast<std::int32_t>(all)});
  } else {
    const V zeros = make_int(OpKind::fill, {all}, DType::f32, {}, ir::Number{0.0});
    const V repeated = make_int(OpKind::clone, {chosen}, DType::f32, {mask});
    counts = p_.on_storage_of(zeros, {all}, DType::f32, true);
    emit(OpKind::index_add, {zeros, flat, repeated}, {counts});  // scatter_add_
  }
  of.tokens = make_int(OpKind::add, {all}, DType::f32, {of.tokens, counts});
}

/// The sum of each expert's probabilities, over the tokens that count.
void Lowering::sum_chances(Balance& of, V chances, V mask) {
  const Shape row{spec_.moe->experts};
  V counted = cast(chances, DType::f32);
  if (mask != ir::no_id)
    counted = binary(OpKind::mul, counted, p_.reshape(mask, {shape(chances)[0], 1}));
  const V sum = out(row, DType::f32, grad(counted));
  emit(OpKind::sum, {counted}, {sum});
  of.chances = binary(OpKind::add, of.chances, sum);
  if (mask == ir::no_id) return;  // a number of Python's
  const V rows = whole_sum(mask);
  of.rows = of.rows == ir::no_id ? make_int(OpKind::add_scalar, {}, DType::f32, {rows})
                                 : make_int(OpKind::add, {}, DType::f32, {rows, of.rows});
}

/// load_balancing_loss_func; `masked`: of a batch with an attention mask.
ir::ValueId Lowering::balance_loss(bool masked) {
  const std::int64_t all = spec_.moe->experts;
  leaf_ = Module::loss;
  Balance of;
  for (V* sum : {&of.tokens, &of.chances}) *sum = make_int(OpKind::fill, {all}, DType::f32, {});
  const std::int64_t tokens = shape(recorded_logits_.front())[0];
  // of the attention mask, which is as long as the labels
  const V mask = masked ? make_int(OpKind::cast, {tokens}, DType::f32, {labels_}) : ir::no_id;
  V top = ir::no_id, experts = ir::no_id;
  for (const V logits : recorded_logits_) {
    // torch.autocast computes a softmax in fp32
    const bool widens = config_.precision.autocast;
    const V chances = unary(OpKind::softmax, widens ? cast(logits, DType::f32) : logits);
    const auto [best, chosen] = best_experts(chances);
    hold({top, experts});  // until their names are bound anew
    top = best;
    experts = chosen;
    count_tokens(of, experts, mask);
    sum_chances(of, chances, mask);
  }
  const auto share = [&](V sum) {
    return masked ? binary(OpKind::div, sum, of.rows)
                  : unary(OpKind::div, sum, ir::Number{static_cast<double>(tokens)});
  };
  const V of_tokens = share(of.tokens), of_chances = share(of.chances);
  const V both = out({1, all}, DType::f32, grad(of_chances));
  emit(OpKind::mul, {p_.reshape(of_chances, {1, all}), of_tokens}, {both});
  const V loss = unary(OpKind::mul_scalar, whole_sum(both, true), ir::Number{1.0});
  hold({top, experts, mask, of.tokens, of.chances, of_tokens, of_chances});
  return loss;
}

/// What a TRL trainer does with it: added by its coefficient, and its mean over ranks logged.
ir::ValueId Lowering::with_balance(V loss, V balance) {
  if (balance == ir::no_id) return loss;
  const V sum = binary(OpKind::add, loss, unary(OpKind::mul_scalar, balance, ir::Number{1.0}));
  emit(OpKind::mean, {balance}, {out({}, DType::f32, false)});
  return sum;
}

}  // namespace ac_advisor::passes
