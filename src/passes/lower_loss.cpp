// transformers v5.23, loss/loss_utils.py: ForCausalLMLoss; cut cross-entropy; Liger's chunked loss.
#include <algorithm>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

ir::ValueId Lowering::soft_cap(V logits, double cap) {
  const V scaled = unary(OpKind::div, logits, cap);
  const V bent = unary(OpKind::tanh, scaled);
  return unary(OpKind::mul_scalar, bent, cap);
}

ir::ValueId Lowering::shifted_labels(bool keep_padded) {
  const V padded = out({config_.batch, config_.seq + 1}, DType::i64, false);
  emit(OpKind::pad, {labels_}, {padded});
  const V shifted = out({config_.batch, config_.seq}, DType::i64, false);
  emit(OpKind::clone, {padded}, {shifted});
  if (keep_padded) padded_labels_ = padded;
  return shifted;
}

void Lowering::loss_ce() {
  const std::int64_t tokens = config_.batch * config_.seq;
  leaf_ = Module::lm_head;
  V logits = linear(hidden_, {lm_head_, ir::no_id});
  phase_ = Phase::loss;
  if (spec_.final_softcap) logits = soft_cap(logits, *spec_.final_softcap);
  leaf_ = Module::loss;
  const V wide = cast(logits, DType::f32);
  const V labels = shifted_labels(true);
  const V flat = p_.reshape(wide, {tokens, spec_.vocab});
  const V log_probabilities = unary(OpKind::log_softmax, flat);
  const V loss = out({}, DType::f32, true), weight = out({}, DType::f32, false);
  emit(OpKind::nll_loss, {log_probabilities, labels}, {loss, weight});
  hold({wide, padded_labels_, hidden_, logits});  // ForCausalLMLoss' locals, the model's output
  s_.loss = loss;
  s_.outputs = {logits};
}

void Lowering::loss_lc_ce() {
  const std::int64_t tokens = config_.batch * config_.seq;
  // The loop asks the model for hidden states and one token's logits (`logits_to_keep=1`).
  leaf_ = Module::lm_head;
  const V last = p_.on_storage_of(hidden_, {config_.batch, 1, spec_.hidden}, dtype(hidden_), false);
  const V one = out({config_.batch, 1, spec_.vocab}, dtype(hidden_), false);
  emit(OpKind::mm, {last, lm_head_}, {one}, static_cast<std::int32_t>(spec_.hidden));
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V labels = shifted_labels(false);
  const V loss = out({}, DType::f32, true), lse = out({tokens}, DType::f32, false);
  const V flat = p_.reshape(hidden_, {tokens, spec_.hidden});
  emit(OpKind::linear_cross_entropy, {flat, lm_head_, labels}, {loss, lse},
       static_cast<std::int32_t>(spec_.hidden));
  hold({hidden_, one});
  s_.loss = loss;
  s_.outputs = {hidden_, one};
}

/// Logits of `chunk_tokens` tokens at a time; both gradients are made in forward.
void Lowering::loss_chunked() {
  const std::int64_t tokens = config_.batch * config_.seq, h = spec_.hidden, v = spec_.vocab;
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const DType dt = dtype(hidden_);
  const V labels = shifted_labels(false);
  const V flat = p_.reshape(hidden_, {tokens, h});
  V grad_hidden = out({tokens, h}, dt, false);
  emit(OpKind::empty, {}, {grad_hidden});
  V grad_weight = out({v, h}, dt, false);
  emit(OpKind::fill, {}, {grad_weight});
  V total = out({}, DType::f32, false);
  emit(OpKind::fill, {}, {total});
  const auto rewrite = [&](OpKind kind, V target, V source) {
    const V next = p_.on_storage_of(target, shape(target), dtype(target), true);
    emit(kind, {target, source}, {next});
    return next;
  };
  for (std::int64_t start = 0; start < tokens; start += config_.chunk_tokens) {
    const std::int64_t n = std::min(config_.chunk_tokens, tokens - start);
    const auto k = static_cast<std::int32_t>(h);
    const V part = p_.on_storage_of(flat, {n, h}, dt, false);
    const V logits = out({n, v}, dt, false);
    emit(OpKind::mm, {part, lm_head_}, {logits}, k);
    const V wide = cast(logits, DType::f32);
    const V log_probabilities = unary(OpKind::log_softmax, wide);
    const V loss = out({}, DType::f32, false), weight = out({}, DType::f32, false);
    emit(OpKind::nll_loss, {log_probabilities, labels}, {loss, weight});
    const V share = unary(OpKind::div, loss, static_cast<double>(tokens));
    total = rewrite(OpKind::accumulate_inplace, total, share);
    // softmax - one-hot, over the number of tokens, where the log-probabilities were
    V grad_wide = rewrite(OpKind::exp, log_probabilities, log_probabilities);
    const V minus_one = out({n, 1}, DType::f32, false);
    emit(OpKind::fill, {}, {minus_one});
    grad_wide = rewrite(OpKind::scatter, grad_wide, minus_one);
    grad_wide = rewrite(OpKind::div, grad_wide, grad_wide);
    const V grad_logits = cast(grad_wide, dt);
    const V into_hidden = out({n, h}, dt, false);
    emit(OpKind::mm, {grad_logits, lm_head_}, {into_hidden}, static_cast<std::int32_t>(v));
    grad_hidden = rewrite(OpKind::copy, grad_hidden, into_hidden);
    const V into_weight = out({v, h}, dt, false);
    emit(OpKind::mm, {grad_logits, part}, {into_weight}, static_cast<std::int32_t>(n));
    grad_weight = rewrite(OpKind::accumulate_inplace, grad_weight, into_weight);
    hold({loss, grad_logits});  // the loop's locals
  }
  hold({labels});
  const V loss = p_.on_storage_of(total, {}, DType::f32, false);
  p_.value(loss).requires_grad = true;
  emit(OpKind::precomputed_grad, {flat, lm_head_, grad_hidden, grad_weight}, {loss});
  hold({hidden_});
  s_.loss = loss;
  s_.outputs = {hidden_};
}

}  // namespace ac_advisor::passes
