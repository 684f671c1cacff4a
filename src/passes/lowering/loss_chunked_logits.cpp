// torchtune v0.6: modules/transformer.py, TransformerDecoder.chunked_output;
// modules/loss/ce_chunked_output_loss.py, CEWithChunkedOutputLoss.
#include <span>
#include <vector>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

/// The logits of each part of the sequence, [B, S / N, V] each, all of them before the loss.
std::vector<ir::ValueId> Lowering::logits_in_chunks() {
  const std::int64_t b = config_.run.batch, n = config_.run.seq / config_.memory.chunk_tokens;
  leaf_ = Module::lm_head;
  const V hidden = head_input(hidden_);
  std::vector<V> parts;
  for (std::int64_t i = 0; i < config_.memory.chunk_tokens; ++i)
    parts.push_back(p_.on_storage_of(hidden, {b, n, spec_.hidden}, dtype(hidden), false));
  p_.emit(OpKind::split, phase_, at(leaf_), std::span<const V>(&hidden, 1), parts);
  std::vector<V> logits;
  for (V part : parts) {
    // of several sequences a part is not contiguous: flattening it copies, for a head that is
    // trained (aten/src/ATen/native/LinearAlgebra.cpp, v2.11, should_fold)
    const V rows = b > 1 && grad(m_.lm_head) ? unary(OpKind::clone, part) : part;
    logits.push_back(scaled_logits(linear(rows, {m_.lm_head, m_.lm_head_bias})));
  }
  return logits;
}

/// compute_cross_entropy, which the recipes compile with the blocks (training/_compile.py:
/// compile_loss).
ir::ValueId Lowering::loss_of_chunk(V logits, V labels) {
  if (config_.memory.kernels == Kernels::compiled)
    return compiled_cross_entropy(logits, labels, ir::Reduction::sum);
  const V wide = cast(logits, DType::f32);
  const V flat = p_.reshape(wide, {shape(labels).numel(), spec_.vocab});
  const V loss = cross_entropy(flat, labels, ir::Reduction::sum);
  hold({wide});  // the argument of F.cross_entropy
  return loss;
}

/// How many labels are not ignored.
ir::ValueId Lowering::counted_labels(V labels) {
  const V counts = make_int(OpKind::compare, shape(labels), DType::u8, {labels}, ir::Compare{-100});
  return make_int(OpKind::sum, {}, DType::i64, {counts});
}

/// The recipes' torch.hstack of the labels of the next token and a column to ignore
/// (ignore_labels_cache: a number a sequence, for which a column of the labels stands).
ir::ValueId Lowering::stacked_labels() {
  if (config_.run.labels_shifted) return labels_;
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  return make_int(OpKind::cat, {b, s}, DType::i64,
                  {p_.narrow(labels_, 1, 1, s - 1), p_.narrow(labels_, 1, 0, 1)});
}

void Lowering::loss_chunked_logits() {
  const std::int64_t b = config_.run.batch, n = config_.run.seq / config_.memory.chunk_tokens;
  const std::vector<V> logits = logits_in_chunks();
  hold({hidden_});  // TransformerDecoder.forward's, which returns the logits
  if (config_.run.transformer_impl == TransformerImpl::torchtune)
    hold({last_block_});   // the argument of its unembed
  s_.loss_outside = true;  // whoever's loop it is
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V labels = stacked_labels(), elements = counted_labels(labels);
  std::vector<V> parts;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const V part = p_.narrow(labels, 1, static_cast<std::int64_t>(i) * n, n);
    parts.push_back(
        p_.reshape(b > 1 ? make_int(OpKind::clone, {b, n}, DType::i64, {part}) : part, {b * n}));
  }
  V total = ir::no_id;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const V loss = loss_of_chunk(logits[i], parts[i]);
    total = total == ir::no_id ? unary(OpKind::add_scalar, loss) : binary(OpKind::add, total, loss);
  }
  s_.loss = unary(OpKind::div, total, ir::Number{static_cast<double>(b * (config_.run.seq - 1))});
  hold({elements, labels});
  if (tokens_ != ir::no_id) {  // what the recipe accumulates is summed over them
    s_.loss = unary(OpKind::mul_scalar, s_.loss);
    hold({tokens_});
  }
  hold_all(logits);
  s_.outputs = logits;
}

}  // namespace ac_advisor::passes
