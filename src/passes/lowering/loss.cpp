// transformers v5.23, loss/loss_utils.py: ForCausalLMLoss; cut cross-entropy; Liger's chunked loss.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"
#include "passes/compile/reduction_splits.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

ir::ValueId Lowering::soft_cap(V logits, double cap) {
  const V scaled = unary(OpKind::div, logits, ir::Number{cap});
  const V bent = unary(OpKind::tanh, scaled);
  return unary(OpKind::mul_scalar, bent, ir::Number{cap});
}

ir::ValueId Lowering::shifted_labels(bool keep_padded) {
  if (config_.run.labels_shifted) return labels_;
  const V padded = out({config_.run.batch, config_.run.seq + 1}, DType::i64, false);
  emit(OpKind::pad, {labels_}, {padded});
  const V shifted = out({config_.run.batch, config_.run.seq}, DType::i64, false);
  emit(OpKind::clone, {p_.narrow(padded, 1, 1, config_.run.seq)}, {shifted});
  if (keep_padded) padded_labels_ = padded;
  return shifted;
}

// A loss without logits takes the divisor where it is cheap: on the hidden state.
ir::ValueId Lowering::divided_hidden() {
  if (spec_.logits_multiplier)
    return unary(OpKind::mul_scalar, hidden_, ir::Number{*spec_.logits_multiplier});
  if (spec_.hidden_divisor) return unary(OpKind::div, hidden_, ir::Number{*spec_.hidden_divisor});
  return spec_.logits_divisor ? unary(OpKind::div, hidden_, ir::Number{*spec_.logits_divisor})
                              : hidden_;
}

/// What the LM head reads.
ir::ValueId Lowering::head_input(V hidden) {
  return spec_.hidden_divisor ? unary(OpKind::div, hidden, ir::Number{*spec_.hidden_divisor})
                              : hidden;
}

/// The LM head's weight; NormHead.forward of Baichuan2's modeling_baichuan.py:
/// nn.functional.normalize.
ir::ValueId Lowering::head_weight() {
  const bool trains_rows =
      config_.adapters.method == AdapterMethod::trainable_tokens && m_.lm_head == m_.embed;
  const V weight = trains_rows ? with_tokens(m_.lm_head) : m_.lm_head;
  if (!spec_.normalized_head) return weight;
  constexpr double least = 1e-12, infinity = std::numeric_limits<double>::infinity();
  const V length = out({shape(weight)[0], 1}, dtype(weight), grad(weight));
  emit(OpKind::vector_norm, {weight}, {length});
  const V clamped = unary(OpKind::clamp, length, ir::Clamp{least, infinity});
  const V wide = p_.on_storage_of(clamped, shape(weight), dtype(weight), false);
  emit(OpKind::expand, {clamped}, {wide});
  return binary(OpKind::div, weight, wide);
}

/// What the model makes of the LM head's product: the multiplier, the divisor, the soft cap.
ir::ValueId Lowering::scaled_logits(V logits) {
  if (spec_.logits_multiplier)
    logits = unary(OpKind::mul_scalar, logits, ir::Number{*spec_.logits_multiplier});
  if (spec_.logits_divisor) logits = unary(OpKind::div, logits, ir::Number{*spec_.logits_divisor});
  return spec_.final_softcap ? soft_cap(logits, *spec_.final_softcap) : logits;
}

/// Of logits (tokens, V).
ir::ValueId Lowering::cross_entropy(V logits, V labels, ir::Reduction how) {
  V log_probabilities = unary(OpKind::log_softmax, logits);
  // autocast has nll_loss in fp32, log_softmax in the dtype that cross_entropy_loss names, its
  // input's (aten/src/ATen/autocast_mode.h, native/LossNLL.cpp, v2.11)
  if (config_.precision.autocast) log_probabilities = cast(log_probabilities, DType::f32);
  const V loss = out({}, dtype(log_probabilities), true),
          weight = out({}, dtype(log_probabilities), false);
  emit(OpKind::nll_loss, {log_probabilities, labels}, {loss, weight}, ir::NllLoss{how});
  return loss;
}

/// What the model returns; the loss comes next.
ir::ValueId Lowering::model_logits() {
  leaf_ = Module::lm_head;
  const V weight = head_weight();
  V logits = linear(head_input(gathered(hidden_)), {weight, m_.lm_head_bias});
  if (tp_ > 1 && !config_.layout.loss_parallel) logits = whole_vocabulary(logits);
  if (of_titan()) hold({hidden_});  // its model's, which has returned; transformers' has not
  if (!before_step_) phase_ = Phase::loss;
  logits = scaled_logits(logits);
  leaf_ = Module::loss;
  return logits;
}

void Lowering::loss_ce() {
  const std::int64_t tokens = config_.run.batch * config_.run.seq;
  const V logits = model_logits();
  const bool shards = tp_ > 1 && config_.layout.loss_parallel;
  const V wide = config_.memory.loss == LossKind::ce ? cast(logits, DType::f32) : logits;
  const V labels = shifted_labels(true);
  const V flat = p_.reshape(wide, {tokens, shape(wide).back()});
  // fixed_cross_entropy divides by num_items_in_batch, TorchTitan's loop by global_valid_tokens,
  // but for the losses of a pipeline
  const bool summed = by_trainer() || of_titan();
  V loss = shards ? vocab_parallel_loss(flat, labels)
                  : cross_entropy(flat, labels, summed ? ir::Reduction::sum : ir::Reduction::mean);
  if (summed && !shards && !(of_titan() && config_.layout.pp > 1))
    loss = unary(OpKind::div, loss, ir::Number{static_cast<double>(tokens)});
  hold({wide, padded_labels_});      // ForCausalLMLoss' locals
  if (!of_titan()) hold({hidden_});  // the model's
  if (config_.layout.ulysses()) loss = weighted_loss(loss, labels);
  if (balances_) {
    const V share = unary(OpKind::mul_scalar, balance_loss(false), ir::Number{1.0});
    loss = added_in_place(loss, share);
  }
  hold({logits});
  s_.loss = loss;
  s_.outputs = {logits};
  s_.outputs.insert(s_.outputs.end(), recorded_logits_.begin(), recorded_logits_.end());
}

// torch.compile(f), f(logits, labels) = F.cross_entropy(logits.float(), labels), of logits (tokens,
// V): what AOTAutograd and Inductor (v2.11) make of it. Nothing of the logits' size is made but
// their gradient: a row's maximum and log-sum-exp are saved, and each kernel widens as it reads.
ir::ValueId Lowering::compiled_cross_entropy(V logits, V labels, ir::Reduction how) {
  using compile::most_unsplit;
  const std::int64_t tokens = shape(labels).numel();
  const V flat = p_.reshape(logits, {tokens, spec_.vocab});
  const V most = out({tokens, 1}, DType::f32, false), log_sum = out({tokens, 1}, DType::f32, false);
  if (const std::int64_t splits = compile::inner_reduction_splits(spec_.vocab, tokens);
      splits > 1) {  // of few rows each is reduced in parts: its maximum, then its sum
    const Shape in_parts{tokens, splits};
    const V maxima = out(in_parts, DType::f32, false), sums = out(in_parts, DType::f32, false);
    emit(OpKind::generated, {flat}, {maxima}, ir::Generated{});
    emit(OpKind::generated, {maxima}, {most}, ir::Generated{});
    emit(OpKind::generated, {flat, most}, {sums}, ir::Generated{});
    emit(OpKind::generated, {sums}, {log_sum}, ir::Generated{});
  } else {
    emit(OpKind::generated, {flat}, {most, log_sum}, ir::Generated{});
  }
  // The targets' logits: one of each row.
  const V targets = p_.narrow(flat, 1, 0, 1);
  const V loss = out({}, DType::f32, true);
  const V total = p_.on_storage_of(loss, {}, DType::f32, false);
  // A mean is divided by how many targets there are.
  const bool counts = how == ir::Reduction::mean;
  const auto emit_sum = [&](std::span<const V> inputs, DType counted, const Shape& of) {
    std::vector<V> made{of.rank() == 0 ? total : out(of, DType::f32, false)};
    if (counts) made.push_back(out(of, counted, false));
    p_.emit(OpKind::generated, phase_, at(leaf_), inputs, made, ir::Generated{});
    return made;
  };
  std::vector<V> read{labels, targets, most, log_sum};
  if (tokens > most_unsplit)
    read = emit_sum(read, DType::i64, {(tokens + most_unsplit - 1) / most_unsplit});
  const std::vector<V> made = emit_sum(read, DType::f32, {});

  // Given: the inputs of the node, and the loss's gradient. Made: that of the logits.
  std::vector<V> saved{logits, labels, most, log_sum};
  if (counts) saved.push_back(made.back());
  std::vector<std::int32_t> all(saved.size());
  std::iota(all.begin(), all.end(), 0);
  emit_compiled_loss(std::move(saved), std::move(all), loss);
  return loss;
}

// The same under loss_parallel, of shards of the logits (torch/distributed/tensor/parallel/loss.py,
// v2.11). Maximum, sum of exponentials and the targets' entries are reduced over ranks in place;
// zeros of the shards' size with the targets' places, in fp32, are what the logits' gradient is
// made of, and saved so.
ir::ValueId Lowering::compiled_vocab_parallel_loss(V logits, V labels) {
  using compile::most_unsplit;
  const std::int64_t tokens = shape(labels).numel(), width = shape(logits).back();
  const V flat = p_.reshape(logits, {tokens, width});
  const auto generated = [&](std::initializer_list<V> in, std::initializer_list<V> made) {
    emit(OpKind::generated, in, made, ir::Generated{});
  };
  const auto reduced = [&](V x, bool largest) {
    emit(OpKind::tp_all_reduce, {x}, {}, ir::TpReduce{largest});
    return x;
  };
  const auto of_rows = [&](std::initializer_list<V> in) {
    const V column = out({tokens, 1}, DType::f32, false);
    const std::int64_t splits = compile::inner_reduction_splits(width, tokens);
    if (splits == 1) {
      generated(in, {column});
      return column;
    }
    const V parts = out({tokens, splits}, DType::f32, false);
    generated(in, {parts});
    generated({parts}, {column});
    return column;
  };
  const V most = reduced(of_rows({flat}), true);
  const V sums = reduced(of_rows({flat, most}), false);
  const V places = out({tokens, width}, DType::f32, false);
  generated({}, {places});
  const V found = out({tokens, 1}, DType::f32, false), counts = out({tokens, 1}, DType::u8, false);
  generated({labels, flat, most, sums}, {found, counts, places});
  reduced(found, false);
  const V loss = out({}, DType::f32, true), total = p_.on_storage_of(loss, {}, DType::f32, false);
  V losses = found;
  if (tokens > most_unsplit) {
    const std::int64_t parts = (tokens + most_unsplit - 1) / most_unsplit;
    losses = out(Shape{parts}, DType::f32, false);
    generated({labels, found}, {losses});
  }
  generated({labels, losses}, {total});
  const V gradients = out({tokens, width}, DType::f32, false);
  generated({places, flat, most, sums}, {gradients});
  emit_compiled_loss({logits, counts, gradients}, {1, 2}, loss);
  return loss;
}

/// The node of a compiled loss: its backward is one kernel, which makes the gradient of the first
/// of `inputs`, the logits, of those numbered `read` and of the loss's own.
void Lowering::emit_compiled_loss(std::vector<V> inputs, std::vector<std::int32_t> read, V loss) {
  const V logits = inputs.front();
  ir::CompiledGraph backward;
  backward.given = static_cast<std::int32_t>(inputs.size()) + 1;
  backward.made = {{shape(logits), dtype(logits), -1}};
  read.push_back(backward.given - 1);
  backward.launches = {
      {OpKind::generated, ir::Generated{}, Module::loss, std::move(read), {backward.given}}};
  backward.results.assign(inputs.size(), -1);
  backward.results[0] = backward.given;
  p_.compiled.push_back(std::move(backward));
  const ir::CompiledUnit unit{static_cast<std::int32_t>(p_.compiled.size()) - 1};
  p_.emit(OpKind::compiled_unit, phase_, at(leaf_), inputs, std::span<const V>(&loss, 1), unit);
}

void Lowering::loss_ce_compiled() {
  const V logits = model_logits();
  V loss = tp_ > 1 && config_.layout.loss_parallel
               ? compiled_vocab_parallel_loss(logits, labels_)
               : compiled_cross_entropy(logits, labels_,
                                        of_titan() ? ir::Reduction::sum : ir::Reduction::mean);
  if (of_titan() && config_.layout.pp == 1) {
    const auto tokens = static_cast<double>(shape(labels_).numel());
    loss = unary(OpKind::div, loss, ir::Number{tokens});
  }
  s_.loss = loss;
  hold({logits});  // the loop's
  s_.outputs = {logits};
}

/// What accelerate's convert_outputs_to_fp32 gives the loop instead of the model's output; autocast
/// is over by then.
void Lowering::widen_output() {
  leaf_ = Module::lm_head;
  for (V& output : s_.outputs) output = cast(output, DType::f32);
}

void Lowering::loss_lc_ce() {
  const std::int64_t tokens = config_.run.batch * config_.run.seq;
  // The loop asks the model for hidden states and one token's logits (`logits_to_keep=1`).
  leaf_ = Module::lm_head;
  const V last = p_.narrow(hidden_, 1, config_.run.seq - 1, 1);
  const V one = out({config_.run.batch, 1, spec_.vocab}, dtype(hidden_), false);
  emit(OpKind::mm, {last, m_.lm_head}, {one}, ir::Product{static_cast<std::int32_t>(spec_.hidden)});
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V labels = shifted_labels(false);
  const V loss = out({}, DType::f32, true), lse = out({tokens}, DType::f32, false);
  const V flat = p_.reshape(divided_hidden(), {tokens, spec_.hidden});
  emit(OpKind::linear_cross_entropy, {flat, m_.lm_head, labels}, {loss, lse},
       ir::LinearCrossEntropy{spec_.final_softcap.value_or(0.0),
                              static_cast<std::int32_t>(spec_.hidden)});
  hold({hidden_, one});
  s_.loss = loss;
  s_.outputs = {hidden_, one};
}

/// Liger 0.8.5, ops/fused_linear_cross_entropy.py: one buffer for the logits of every chunk, which
/// one kernel turns into their gradient where they are; products write or add into the gradients.
void Lowering::loss_liger() {
  const std::int64_t tokens = config_.run.batch * config_.run.seq, h = spec_.hidden,
                     v = spec_.vocab;
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const DType dt = dtype(hidden_);
  const V labels = shifted_labels(false);
  const V flat = p_.reshape(divided_hidden(), {tokens, h});
  const V grad_hidden = out({tokens, h}, dt, false), losses = out({tokens}, DType::f32, false);
  V grad_weight = grad(m_.lm_head) ? out({v, h}, dt, false) : ir::no_id;
  for (V zeros : {grad_hidden, grad_weight, losses})
    if (zeros != ir::no_id) emit(OpKind::fill, {}, {zeros});
  const V counts = out({tokens}, DType::u8, false), counted = out({}, DType::i64, false);
  emit(OpKind::compare, {labels}, {counts}, ir::Compare{-100.0, ir::Comparison::not_equal});
  emit(OpKind::sum, {counts}, {counted});
  const std::int64_t chunk = std::min(config_.memory.chunk_tokens, tokens);
  const V logits = out({chunk, v}, dt, false);
  emit(OpKind::empty, {}, {logits});
  const auto into = [&](V target, const ir::Shape& shape) {
    return p_.on_storage_of(target, shape, dt, true);
  };
  for (std::int64_t start = 0; start < tokens; start += chunk) {
    const std::int64_t n = std::min(chunk, tokens - start);
    const V part = p_.narrow(flat, 0, start, n);
    const V targets = p_.narrow(p_.reshape(labels, {tokens}), 0, start, n);
    const V made = into(logits, {n, v}), gradient = into(logits, {n, v});
    emit(OpKind::mm, {part, m_.lm_head}, {made}, ir::Product{static_cast<std::int32_t>(h)});
    emit(OpKind::softmax, {made, targets, losses}, {gradient});  // less one at the target
    emit(OpKind::mm, {gradient, m_.lm_head}, {into(p_.narrow(grad_hidden, 0, start, n), {n, h})},
         ir::Product{static_cast<std::int32_t>(v), ir::Form::nn});
    if (grad_weight == ir::no_id) continue;
    const ir::Product product{static_cast<std::int32_t>(n), ir::Form::tn};
    const V sum = into(grad_weight, {v, h});
    if (is_half(dt)) {
      emit(OpKind::addmm, {grad_weight, gradient, part}, {sum}, product);
    } else {
      const V more = out({v, h}, dt, false);
      emit(OpKind::mm, {gradient, part}, {more}, product);
      emit(OpKind::accumulate_inplace, {grad_weight, more}, {sum});
    }
    grad_weight = sum;
  }
  hold({logits, counts, counted, labels});
  const V total = out({}, DType::f32, false);
  emit(OpKind::sum, {losses}, {total});
  end_chunks(total, flat, grad_hidden, grad_weight);
}

/// The loss, whose gradients exist already; that of a frozen LM head (no_id) does not.
void Lowering::end_chunks(V total, V flat, V grad_hidden, V grad_weight) {
  const V loss = p_.on_storage_of(total, {}, DType::f32, false);
  p_.value(loss).requires_grad = true;
  if (grad_weight != ir::no_id)
    emit(OpKind::precomputed_grad, {flat, m_.lm_head, grad_hidden, grad_weight}, {loss});
  else
    emit(OpKind::precomputed_grad, {flat, m_.lm_head, grad_hidden}, {loss});
  hold({hidden_});
  s_.loss = loss;
  s_.outputs = {hidden_};
}

/// Logits of `chunk_tokens` tokens at a time; both gradients are made in forward.
void Lowering::loss_chunked() {
  if (config_.memory.kernels == Kernels::fused && config_.runtime.kind == Runtime::pytorch)
    return loss_liger();
  const std::int64_t tokens = config_.run.batch * config_.run.seq, h = spec_.hidden,
                     v = spec_.vocab;
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const DType dt = dtype(hidden_);
  const V labels = shifted_labels(false);
  const V flat = p_.reshape(divided_hidden(), {tokens, h});
  V grad_hidden = out({tokens, h}, dt, false);
  emit(OpKind::empty, {}, {grad_hidden});
  V grad_weight = grad(m_.lm_head) ? out({v, h}, dt, false) : ir::no_id;
  if (grad_weight != ir::no_id) emit(OpKind::fill, {}, {grad_weight});
  V total = out({}, DType::f32, false);
  emit(OpKind::fill, {}, {total});
  const auto rewrite = [&](OpKind kind, V target, V source) {
    const V next = p_.on_storage_of(target, shape(target), dtype(target), true);
    emit(kind, {target, source}, {next});
    return next;
  };
  // The last token of a sequence, or document, has no successor: it counts for nothing (labels are
  // -100 there).
  const std::int64_t texts = is_packed() ? config_.run.packing : config_.run.batch;
  const double counted = static_cast<double>(std::max<std::int64_t>(1, tokens - texts));
  for (std::int64_t start = 0; start < tokens; start += config_.memory.chunk_tokens) {
    const std::int64_t n = std::min(config_.memory.chunk_tokens, tokens - start);
    const auto k = static_cast<std::int32_t>(h);
    const V part = p_.narrow(flat, 0, start, n);
    const V logits = out({n, v}, dt, false);
    emit(OpKind::mm, {part, m_.lm_head}, {logits}, ir::Product{k});
    const V wide = cast(logits, DType::f32);
    const V log_probabilities = unary(OpKind::log_softmax, wide);
    const V loss = out({}, DType::f32, false), weight = out({}, DType::f32, false);
    const V targets = p_.narrow(p_.reshape(labels, {tokens}), 0, start, n);
    emit(OpKind::nll_loss, {log_probabilities, targets}, {loss, weight},
         ir::NllLoss{ir::Reduction::sum});
    const V share = unary(OpKind::div, loss, ir::Number{counted});
    total = rewrite(OpKind::accumulate_inplace, total, share);
    // softmax - one-hot, over the number of tokens, where the log-probabilities were
    V grad_wide = rewrite(OpKind::exp, log_probabilities, log_probabilities);
    const V minus_one = out({n, 1}, DType::f32, false);
    emit(OpKind::fill, {}, {minus_one}, ir::Number{-1.0});
    const V one_hot = p_.on_storage_of(grad_wide, {n, v}, DType::f32, true);
    emit(OpKind::scatter, {grad_wide, targets, minus_one}, {one_hot});
    grad_wide = p_.on_storage_of(one_hot, {n, v}, DType::f32, true);
    emit(OpKind::div, {one_hot}, {grad_wide}, ir::Number{counted});
    const V grad_logits = cast(grad_wide, dt);
    const V into_hidden = out({n, h}, dt, false);
    emit(OpKind::mm, {grad_logits, m_.lm_head}, {into_hidden},
         ir::Product{static_cast<std::int32_t>(v), ir::Form::nn});
    const V copied = p_.on_storage_of(grad_hidden, {tokens, h}, dt, true);
    emit(OpKind::copy, {p_.narrow(grad_hidden, 0, start, n), into_hidden}, {copied});
    grad_hidden = copied;
    if (grad_weight != ir::no_id) {
      const V into_weight = out({v, h}, dt, false);
      emit(OpKind::mm, {grad_logits, part}, {into_weight},
           ir::Product{static_cast<std::int32_t>(n), ir::Form::tn});
      grad_weight = rewrite(OpKind::accumulate_inplace, grad_weight, into_weight);
    }
    hold({loss, grad_logits});  // the loop's locals
  }
  hold({labels});
  end_chunks(total, flat, grad_hidden, grad_weight);
}

}  // namespace ac_advisor::passes
