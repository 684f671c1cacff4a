// TRL v1.16, trainer/rloo_trainer.py: RLOOTrainer._compute_loss with one iteration of each batch.
// The reference's divergence is in the rewards, so of it nothing is in the step that trains.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

/// What _compute_loss logs: the mean entropy, and how many sequences' ratios are clipped.
void Lowering::logged_ratio(V ratio, V entropy) {
  const ir::Shape row = shape(ratio);
  const auto flags = [&](ir::Comparison how) {
    return make_int(OpKind::compare, row, DType::u8, {ratio}, ir::Compare{1.0, how});
  };
  logged_mean(entropy);
  const V low = flags(ir::Comparison::less_equal), high = flags(ir::Comparison::greater);
  for (int i = 0; i < 5; ++i) flags(ir::Comparison::greater);  // of advantages, and both
  const auto share = [&](V flag) {
    const V wide = make_int(OpKind::cast, row, DType::f32, {flag});
    make_int(OpKind::sum, {}, DType::f32, {wide});  // nanmean
    return wide;
  };
  least(share(low));
  least(share(high));
  share(low);  // either's
}

void Lowering::loss_rloo() {
  const Scored of = fused_head(Logged::entropy);
  hold({hidden_});
  hold_all({held_of_head_[0], held_of_head_[1]});
  end_autocast();
  const V log_probs = last_tokens(of.log_probs), entropy = last_tokens(of.entropy);
  const V counted = unary(OpKind::mul_scalar, log_probs, ir::Number{1.0});  // of the mask
  const V said = out({config_.run.batch}, dtype(counted), grad(counted));
  emit(OpKind::sum, {counted}, {said});
  const V apart = binary(OpKind::add, said, s_.precomputed[0], ir::Add{-1.0});
  const V ratio = unary(OpKind::exp_of, apart);
  const V clipped = unary(OpKind::clamp, ratio, ir::Clamp{0.8, 1.2});
  const V gain = unary(OpKind::mul_scalar, ratio, ir::Number{1.0}),
          clipped_gain = unary(OpKind::mul_scalar, clipped, ir::Number{1.0});
  const V loss = unary(OpKind::neg, binary(OpKind::minimum, gain, clipped_gain));
  s_.loss = with_balance(mean_loss(loss), of.balance);
  logged_ratio(ratio, entropy);
  hold({labels_, of.mask, of.log_probs, of.entropy, of.loss, log_probs, entropy, said, apart, ratio,
        clipped, gain, clipped_gain, loss});
  s_.outputs = {of.log_probs};
}

}  // namespace ac_advisor::passes
