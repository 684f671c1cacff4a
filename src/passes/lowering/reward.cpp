// TRL v1.16, trainer/reward_trainer.py, RewardTrainer.compute_loss; transformers v5.23,
// modeling_layers.py, GenericForSequenceClassification.forward.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

/// A score of each token, of which that of a row's last is its reward.
void Lowering::loss_reward() {
  const std::int64_t rows = config_.run.batch, tokens = config_.run.seq;
  leaf_ = Module::lm_head;
  const V scores = base_linear(hidden_, {m_.lm_head});
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V not_padding = make_int(OpKind::compare, {rows, tokens}, DType::u8, {m_.ids},
                                 ir::Compare{0.0, ir::Comparison::not_equal}),
          counted = make_int(OpKind::cast, {rows, tokens}, DType::i32, {not_padding}),
          places = make_int(OpKind::arange, {tokens}, DType::i32, {}),
          placed = make_int(OpKind::mul, {rows, tokens}, DType::i32, {places, counted}),
          last = make_int(OpKind::amax, {rows}, DType::i64, {placed}),
          each = make_int(OpKind::arange, {rows}, DType::i64, {});
  const V pooled = out({rows, 1}, dtype(scores), grad(scores));
  emit(OpKind::index, {scores, last}, {pooled});
  hold({hidden_, scores, not_padding, counted, places, last, each});  // the model's locals
  end_autocast();
  const V wide = config_.precision.autocast ? cast(pooled, DType::f32) : pooled;
  const auto [chosen, rejected] = halves(p_.reshape(wide, {rows}));
  const V margin = binary(OpKind::add, chosen, rejected, ir::Add{-1.0});
  s_.loss = unary(OpKind::neg, mean_loss(unary(OpKind::log_sigmoid, margin)));
  hold({wide});
  s_.outputs = {wide};
}

}  // namespace ac_advisor::passes
