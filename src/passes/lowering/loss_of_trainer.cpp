// What a Trainer makes of a loss and counts beside it. transformers v5.23, trainer.py:
// Trainer.compute_loss and the loop's test for nan and inf; accelerate v1.15, accelerator.py:
// backward; TRL v1.16, trainer/sft_trainer.py: SFTTrainer.compute_loss.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;

/// A loss that is summed, and divided by the number of the step's tokens.
bool Lowering::by_trainer() const {
  const std::string& framework = config_.runtime.framework;
  return (framework == "hf-trainer" || framework == "trl" || framework == "ms-swift" ||
          config_.llamafactory()) &&
         config_.runtime.kind != Runtime::ac_trainer && !config_.layout.ulysses() &&
         !(config_.memory.kernels == Kernels::compiled &&
           config_.memory.compile_unit == CompileUnit::model);
}

/// Of all elements; what is true of a mask is counted in int64.
ir::ValueId Lowering::whole_sum(V x, bool differentiable) {
  V added = x;
  if (dtype(x) == DType::u8) {
    added = out(shape(x), DType::i64, false);
    emit(OpKind::cast, {x}, {added});
  }
  const V total = out({}, dtype(added), differentiable && grad(x));
  emit(OpKind::sum, {added}, {total});
  return total;
}

/// Averages over all ranks of entropy and of the likeliest targets, and the tokens so far.
void Lowering::logged(V mask, V entropy, V likeliest) {
  const auto gathered_sum = [&](V x) { return whole_sum(whole_sum(x)); };
  const V valid = gathered_sum(mask);
  for (const V figure : {gathered_sum(entropy), gathered_sum(likeliest)}) {
    emit(OpKind::compare, {valid}, {out({}, DType::u8, false)},
         ir::Compare{0.0, ir::Comparison::greater});
    emit(OpKind::div, {figure, valid}, {out({}, DType::f32, false)});
  }
  gathered_sum(labels_);  // of the attention mask, which is as long
}

/// DeepSpeed v0.19.8, runtime/engine.py, backward: over the micro-batches, times the loss scale.
void Lowering::engines_loss() {
  s_.loss = unary(OpKind::div, s_.loss, ir::Number{static_cast<double>(config_.run.grad_accum)});
  s_.loss = unary(OpKind::mul_scalar, s_.loss, ir::Number{1.0});
}

/// Scaled by the number of ranks and, but for DeepSpeed's engine, over micro-batches that are one
/// here; then, if it is neither nan nor infinite, added to the others.
void Lowering::trainers_loss() {
  s_.loss = unary(OpKind::mul_scalar, s_.loss, ir::Number{1.0});
  if (share_of_balance_ != ir::no_id) {  // over the micro-batches, and logged
    const double steps = static_cast<double>(config_.run.grad_accum);
    s_.loss =
        binary(OpKind::add, s_.loss, unary(OpKind::div, share_of_balance_, ir::Number{steps}));
    emit(OpKind::mean, {share_of_balance_}, {out({}, DType::f32, false)});
  }
  if (!config_.layout.zero()) s_.loss = unary(OpKind::div, s_.loss, ir::Number{1.0});
  const auto test = [&](V x) {
    emit(OpKind::compare, {x}, {out({}, DType::u8, false)}, ir::Compare{});
  };
  test(s_.loss);
  const V absolute = out({}, dtype(s_.loss), false);
  emit(OpKind::abs, {s_.loss}, {absolute});
  test(absolute);
  emit(OpKind::add_scalar, {s_.loss}, {out({}, dtype(s_.loss), false)}, ir::Number{});
}

}  // namespace ac_advisor::passes
