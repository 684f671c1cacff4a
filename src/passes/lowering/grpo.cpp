// TRL v1.16, trainer/grpo_trainer.py: GRPOTrainer._compute_loss with the loss "dapo" and one
// iteration of each batch. What writes completions is estimated; what scores them, and their
// rewards, are not planned (docs/tasks.md).
#include <algorithm>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

/// transformers v5.23, generation/utils.py: of all rows of a step at once, under no_grad, in the
/// parameters' own dtype (TRL unwraps the model, and its autocast with it). While the prompt is
/// read, keys and values of it and a block's widest tensors: gate, up and their product, or where
/// fp32 and grouped heads leave PyTorch the math kernel alone three tables of scores; four of
/// hidden width beside either. While tokens are written, keys and values of all of them, one
/// layer's once more (DynamicLayer.update joins them by cat), and the last logits, in fp32 too and
/// as probabilities.
std::int64_t Lowering::generation_bytes() const {
  if (config_.task.rollout != Rollout::generate) return 0;
  const DType type = config_.precision.param_dtype;
  const std::int64_t rows = config_.run.batch * config_.run.grad_accum, element = size_of(type),
                     token = spec_.kv_heads * spec_.head_dim * element,
                     prompt = rows * config_.task.prompt, all = rows * config_.run.seq;
  const bool math = type == DType::f32 && spec_.kv_heads < spec_.heads;
  const std::int64_t widest =
      std::max(3 * prompt * spec_.intermediate * element,
               math ? 3 * prompt * config_.task.prompt * spec_.heads * element : std::int64_t{0});
  const std::int64_t reading =
      prompt * (2 * spec_.layers * token + 4 * spec_.hidden * element) + widest;
  const std::int64_t writing =
      all * token * (2 * spec_.layers + 1) + rows * spec_.vocab * (element + 4 + 4);
  std::int64_t bytes = std::max(reading, writing);
  // TRL v1.16, models/utils.py, unwrap_model_for_generation: ZeRO 3's parameters are whole
  if (config_.layout.zero3()) bytes += model::parameter_count(spec_) * element;
  return bytes;
}

/// per_token_logps[:, -logits_to_keep:], then the only chunk of a cat: (B, completion).
ir::ValueId Lowering::last_tokens(V of_all) {
  const std::int64_t tokens = config_.run.seq - config_.task.prompt;
  const auto start = static_cast<std::int32_t>(config_.run.seq - 1 - tokens);
  return unary(OpKind::clone, sliced(of_all, {config_.run.batch, tokens}, ir::Slice{start, 1}));
}

/// The mean of what the mask keeps: its sum and how many that are, stacked to be reduced over
/// ranks.
ir::ValueId Lowering::logged_mean(V of_tokens) {
  const V counted = make_int(OpKind::mul, shape(of_tokens), DType::f32, {of_tokens}),
          total = make_int(OpKind::sum, {}, DType::f32, {counted}),
          tokens = make_int(OpKind::cast, {}, DType::f32,
                            {make_int(OpKind::sum, {}, DType::i64, {counted})});
  make_int(OpKind::cat, {2}, DType::f32, {total, tokens});
  return make_int(OpKind::div, {}, DType::f32,
                  {total, make_int(OpKind::clamp, {}, DType::f32, {tokens})});
}

/// TRL v1.16, trainer/utils.py, nanmin: x.isnan().all(), then x[~x.isnan()].min().
void Lowering::least(V of_rows) {
  const ir::Shape row = shape(of_rows);
  const auto flags = [&](V x, ir::Comparison how) {
    return make_int(OpKind::compare, row, DType::u8, {x}, ir::Compare{1.0, how});
  };
  make_int(OpKind::sum, {}, DType::i64, {flags(of_rows, ir::Comparison::not_equal)});
  const V valid = flags(flags(of_rows, ir::Comparison::not_equal), ir::Comparison::equal),
          kept = make_int(OpKind::index, row, DType::f32, {of_rows, valid});
  make_int(OpKind::sum, {}, DType::f32, {kept});
}

/// What compute_loss logs: means of the entropy and of which ratios were clipped, and the least and
/// the most clipped sequence.
void Lowering::logged_clipping(V ratio, V entropy) {
  const ir::Shape each = shape(entropy), row{each[0]};
  const auto flags = [&](V x, ir::Comparison how) {
    return make_int(OpKind::compare, each, DType::u8, {x}, ir::Compare{1.0, how});
  };
  logged_mean(entropy);
  const V low = flags(ratio, ir::Comparison::less_equal),
          high = flags(ratio, ir::Comparison::greater);
  for (int i = 0; i < 5; ++i) flags(entropy, ir::Comparison::greater);  // of advantages, and both
  const auto wide = [&](V flag) { return make_int(OpKind::cast, each, DType::f32, {flag}); };
  for (const V flag : {low, high, low}) logged_mean(wide(flag));
  for (const V flag : {low, high}) {
    const V counted = make_int(OpKind::mul, each, DType::f32, {wide(flag)}),
            total = make_int(OpKind::sum, row, DType::f32, {counted}),
            tokens = make_int(OpKind::sum, row, DType::i64, {counted});
    least(make_int(OpKind::div, row, DType::f32, {total, tokens}));
  }
}

void Lowering::loss_grpo() {
  const std::int64_t rows = config_.run.batch, tokens = config_.run.seq - config_.task.prompt;
  const Scored of = fused_head(Logged::entropy);
  hold({hidden_});
  hold_all({held_of_head_[0], held_of_head_[1]});
  end_autocast();
  const V log_probs = last_tokens(of.log_probs), entropy = last_tokens(of.entropy);
  const V before = p_.on_storage_of(log_probs, shape(log_probs), dtype(log_probs), false);
  const V ratio = unary(OpKind::exp_of, binary(OpKind::add, log_probs, before, ir::Add{-1.0}));
  const V clipped = unary(OpKind::clamp, ratio, ir::Clamp{0.8, 1.2});
  const V gain = unary(OpKind::mul_scalar, ratio, ir::Number{1.0}),
          clipped_gain = unary(OpKind::mul_scalar, clipped, ir::Number{1.0});
  V loss = unary(OpKind::neg, binary(OpKind::minimum, gain, clipped_gain));
  // a reference's term, exp(r - x) - (r - x) - 1
  if (config_.task.reference != Reference::none) {
    const V reference = s_.precomputed[0];
    const auto behind = [&] { return binary(OpKind::add, reference, log_probs, ir::Add{-1.0}); };
    const V exponential = unary(OpKind::exp_of, behind());
    const V divergence =
        unary(OpKind::add_scalar, binary(OpKind::add, exponential, behind(), ir::Add{-1.0}));
    loss = binary(OpKind::add, loss, divergence, ir::Add{0.04});
    hold({divergence});
  }
  const V counted = unary(OpKind::mul_scalar, loss, ir::Number{1.0});
  const V total = out({}, dtype(counted), grad(counted));
  emit(OpKind::sum, {counted}, {total});
  s_.loss = unary(OpKind::div, total, ir::Number{static_cast<double>(rows * tokens)});
  if (of.balance != ir::no_id) {
    // of the chunks of a batch, which is one; then over the micro-batches
    const V stacked = unary(OpKind::clone, of.balance);
    const V mean = mean_loss(p_.reshape(stacked, {1}));
    s_.loss = with_balance(s_.loss, unary(OpKind::div, mean, ir::Number{1.0}));
  }
  logged_clipping(ratio, entropy);
  hold({labels_, of.mask, of.log_probs, of.entropy, of.loss, log_probs, entropy, before, ratio,
        clipped, gain, clipped_gain, loss});
  s_.outputs = {of.log_probs};
}

}  // namespace ac_advisor::passes
