// litgpt v0.5.13: the LM head in chunks (litgpt/model.py, GPT.forward), and
// litgpt/utils.py, chunked_cross_entropy.
#include <algorithm>

#include "litgpt.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// finetune/lora.py asks for chunks of each sequence, finetune/full.py does not.
std::vector<ir::ValueId> Lowering::litgpt_logits() {
  leaf_ = Module::lm_head;
  if (!config_.adapters.used()) {
    const V logits = litgpt_linear(hidden_, m_.head);
    hold({hidden_});
    return {logits};
  }
  std::vector<V> parts, logits;
  for (std::int64_t start = 0; start < config_.run.seq; start += litgpt_chunk_tokens) {
    const std::int64_t n = std::min(litgpt_chunk_tokens, config_.run.seq - start);
    parts.push_back(
        p_.on_storage_of(hidden_, {config_.run.batch, n, spec_.hidden}, dtype(hidden_), false));
  }
  p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{hidden_}, parts);
  // Of several sequences a part is not contiguous: a frozen weight's product takes it as it is.
  for (V part : parts) logits.push_back(litgpt_linear(part, m_.head));
  hold({hidden_});
  return logits;
}

/// logits[..., :-1, :].reshape(-1, V): a copy where there are several sequences.
ir::ValueId Lowering::without_last(V logits) {
  const Shape s = shape(logits);
  const V most = sliced(logits, {s[0], s[1] - 1, s[2]}, ir::Slice{0, 1});
  const V rows = s[0] > 1 ? unary(OpKind::clone, most) : most;
  return p_.reshape(rows, {s[0] * (s[1] - 1), s[2]});
}

/// chunked_cross_entropy: a list of chunks, or 128 tokens at a time of one tensor. The script has a
/// view of the last chunk in its place.
void Lowering::litgpt_loss(const std::vector<V>& logits) {
  const std::int64_t b = config_.run.batch, tokens = b * (config_.run.seq - 1);
  std::vector<V> chunks, targets, locals;
  if (config_.adapters.used()) {
    std::int64_t start = 1;
    for (V chunk : logits) {
      const bool last = chunk == logits.back();
      chunks.push_back(last ? without_last(chunk)
                            : p_.reshape(chunk, {b * shape(chunk)[1], spec_.vocab}));
      const std::int64_t n = shape(chunks.back())[0] / b;
      const V part = p_.narrow(labels_, 1, start, n);
      targets.push_back(b > 1 ? make_int(OpKind::clone, {b * n}, DType::i64, {part})
                              : p_.reshape(part, {n}));
      start += n;
    }
  } else {
    const V rows = without_last(logits.front());
    const V part = p_.narrow(labels_, 1, 1, config_.run.seq - 1);
    const V flat =
        b > 1 ? make_int(OpKind::clone, {tokens}, DType::i64, {part}) : p_.reshape(part, {tokens});
    for (std::int64_t start = 0; start < tokens; start += litgpt_chunk_tokens) {
      const std::int64_t n = std::min(litgpt_chunk_tokens, tokens - start);
      chunks.push_back(p_.on_storage_of(rows, {n, spec_.vocab}, dtype(rows), false));
      targets.push_back(p_.narrow(flat, 0, start, n));
    }
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{rows}, chunks);
    locals = {rows, flat};
  }
  std::vector<V> losses;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const V log_probabilities = unary(OpKind::log_softmax, chunks[i]);
    losses.push_back(out({shape(chunks[i])[0]}, DType::f32, true));
    const V zero = make_int(OpKind::fill, {}, DType::f32, {});
    const V weight = p_.on_storage_of(zero, {}, DType::f32, true);
    emit(OpKind::nll_loss, {log_probabilities, targets[i]}, {losses.back(), weight},
         ir::NllLoss{ir::Reduction::none});
  }
  const V counted = make_int(OpKind::compare, {tokens}, DType::u8, {labels_},
                             ir::Compare{-100.0, ir::Comparison::not_equal});
  const V count = make_int(OpKind::sum, {}, DType::i64, {counted});
  const V all = out({tokens}, DType::f32, true), total = out({}, DType::f32, true);
  p_.emit(OpKind::cat, phase_, at(leaf_), losses, std::vector<V>{all});
  emit(OpKind::sum, {all}, {total});
  const V most = make_int(OpKind::clamp, {}, DType::i64, {count});
  const V loss = out({}, DType::f32, true);
  emit(OpKind::div, {total, most}, {loss});
  hold_all(chunks);
  hold_all(losses);
  hold_all(targets);
  hold_all(locals);
  s_.loss = unary(OpKind::div, loss, ir::Number{static_cast<double>(config_.run.grad_accum)});
  hold({loss});
  if (s_.micro_begin.size() > 1) return;
  for (V held : s_.graph_held) {
    const std::int64_t bytes = p_.storage(p_.storage_of(held)).bytes;
    s_.graph_before.push_back(out({bytes / size_of(dtype(held))}, dtype(held), false));
  }
  hold_all(s_.graph_before);
}

}  // namespace ac_advisor::passes
