// TRL v1.16: trainer/utils.py, add_fused_lm_head; kernels/chunked_logprob.py,
// ChunkedLogProbFunction; trainer/sft_trainer.py, SFTTrainer.compute_loss.
#include <algorithm>
#include <limits>

#include "lowering.hpp"
#include "passes/lowering/tiled_head.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

namespace {

constexpr double most_tokens = std::numeric_limits<double>::infinity();

}  // namespace

/// A part of an operand in the dtype of the products, without a gradient of its own.
ir::ValueId Lowering::narrowed(V part, DType type) {
  return dtype(part) == type ? part : make_int(OpKind::cast, shape(part), type, {part});
}

/// Statistics of each token, folded tile by tile. Locals of the function die with it.
Lowering::TokenStatistics Lowering::token_statistics(V rows, V targets, DType type, Logged asked) {
  const std::int64_t all = shape(rows)[0], h = spec_.hidden, v = spec_.vocab;
  // maximum, sums of exp and its products, the maximum before the target, the target's logit
  std::array<V, 7> running{};
  for (V& statistic : running) {
    statistic = out({all}, DType::f32, false);
    emit(OpKind::fill, {}, {statistic});
  }
  const V buffer = out({std::min(all, tile_tokens), tile_words}, type, false);
  emit(OpKind::empty, {}, {buffer});
  V chunk = ir::no_id;
  for (std::int64_t start = 0; start < all; start += tile_tokens) {
    const std::int64_t n = std::min(tile_tokens, all - start);
    const V next = narrowed(p_.narrow(rows, 0, start, n), type);
    hold({chunk});
    chunk = next;
    for (std::int64_t word = 0; word < v; word += tile_words) {
      const std::int64_t w = std::min(tile_words, v - word);
      const V tile = p_.on_storage_of(buffer, {n, w}, type, true);
      const V words = narrowed(p_.narrow(m_.lm_head, 0, word, w), type);
      emit(OpKind::mm, {chunk, words}, {tile}, ir::Product{static_cast<std::int32_t>(h)});
      if (m_.lm_head_bias != ir::no_id)
        emit(OpKind::add, {tile, narrowed(p_.narrow(m_.lm_head_bias, 0, word, w), type)},
             {p_.on_storage_of(buffer, {n, w}, type, true)});
      const V folded = p_.on_storage_of(running[0], {all}, DType::f32, true);
      emit(OpKind::mean, {tile, targets, running[0]}, {folded});
      running[0] = folded;
    }
  }
  TokenStatistics s;
  s.log_sum = binary(OpKind::add, running[0], unary(OpKind::add_scalar, running[1]));
  if (asked == Logged::nothing) {  // the slot of the entropy, which nothing reads
    s.entropy = s.log_sum;
    hold({chunk});
    hold({buffer});
    for (const V statistic : running) hold({statistic});
    return s;
  }
  s.entropy = binary(OpKind::add, s.log_sum, binary(OpKind::div, running[2], running[1]));
  const bool means = asked == Logged::all || asked == Logged::means;
  if (means) s.mean_logits = unary(OpKind::div, running[4], ir::Number{static_cast<double>(v)});
  const auto chosen = [&](V a, V b, ir::Comparison how) {
    const V which = out({all}, DType::u8, false);
    emit(OpKind::compare, {a, b}, {which}, ir::Compare{0.0, how});
    return which;
  };
  if (asked != Logged::entropy && asked != Logged::means) {
    const V largest = chosen(running[6], running[0], ir::Comparison::at_least),
            first = chosen(running[6], running[5], ir::Comparison::greater);
    s.likeliest = chosen(largest, first, ir::Comparison::both);
  }
  hold({chunk});
  hold({buffer});
  for (const V statistic : running) hold({statistic});
  return s;
}

/// new_zeros of the mask's shape, then masked_scatter.
ir::ValueId Lowering::scattered(V rows, V mask) {
  const V zeros = out(shape(mask), dtype(rows), false),
          places = out(shape(mask), dtype(rows), grad(rows));
  emit(OpKind::fill, {}, {zeros});
  emit(OpKind::masked_scatter, {zeros, mask, rows}, {places});
  return places;
}

/// Log-probabilities of the next tokens that count, without logits. Without padding those are all,
/// but for a prompt's.
Lowering::Scored Lowering::fused_head(Logged asked) {
  const std::int64_t b = config_.run.batch, s = config_.run.seq - 1, h = spec_.hidden,
                     all = b * std::min(s, config_.run.seq - config_.task.prompt);
  if (!before_step_) phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V without_last = p_.on_storage_of(hidden_, {b, s, h}, dtype(hidden_), false);
  p_.value(without_last).requires_grad = grad(hidden_);
  emit(OpKind::slice, {hidden_}, {without_last});
  const V labels = p_.narrow(labels_, 1, 1, s);
  Scored scored;
  scored.mask = out({b, s}, DType::u8, false);
  emit(OpKind::compare, {labels}, {scored.mask}, ir::Compare{-100.0, ir::Comparison::not_equal});
  const V rows = out({all, h}, dtype(hidden_), grad(hidden_));
  emit(OpKind::index, {without_last, scored.mask}, {rows});
  const V targets = out({all}, DType::i64, false);
  emit(OpKind::index, {labels, scored.mask}, {targets});
  const DType type = config_.precision.autocast ? config_.precision.compute_dtype : dtype(rows);
  if (config_.layout.zero3()) leaf_ = Module::lm_head;
  const TokenStatistics of = token_statistics(rows, targets, type, asked);
  const V log_probs = out({all}, DType::f32, grad(rows) || grad(m_.lm_head));
  const ir::TiledHead tiles = tiles_in(type);
  if (m_.lm_head_bias == ir::no_id)
    emit(OpKind::tiled_log_probs, {rows, m_.lm_head, targets, of.log_sum, of.entropy}, {log_probs},
         tiles);
  else
    emit(OpKind::tiled_log_probs,
         {rows, m_.lm_head, targets, of.log_sum, of.entropy, m_.lm_head_bias}, {log_probs}, tiles);
  leaf_ = Module::loss;
  scored.log_probs = scattered(log_probs, scored.mask);
  if (asked != Logged::nothing) scored.entropy = scattered(of.entropy, scored.mask);
  if (of.mean_logits != ir::no_id) scored.mean_logits = scattered(of.mean_logits, scored.mask);
  if (of.likeliest != ir::no_id) scored.likeliest = scattered(of.likeliest, scored.mask);
  // the model's own, which nothing reads
  const V tokens = unary(OpKind::clamp, whole_sum(scored.mask), ir::Clamp{1.0, most_tokens});
  scored.loss = binary(OpKind::div, unary(OpKind::neg, whole_sum(scored.log_probs)), tokens);
  if (balances_) {  // the packed rows of padding_free have no mask
    scored.balance = balance_loss(!is_packed());
    scored.loss = binary(OpKind::add, scored.loss,
                         unary(OpKind::mul_scalar, scored.balance, ir::Number{1.0}));
    hold_all(recorded_logits_);  // the output of the model without its head
  }
  held_of_head_ = {of.entropy, of.log_sum, of.likeliest, of.mean_logits};
  return scored;
}

/// The sum of log-probabilities over the number of tokens. What the trainer logs (entropy, how many
/// of the targets are the likeliest) comes with them.
void Lowering::loss_tiled() {
  const std::int64_t tokens = config_.run.batch * (config_.run.seq - 1);
  const Scored of = fused_head(Logged::accuracy);
  const V total = whole_sum(unary(OpKind::neg, of.log_probs), true);
  unary(OpKind::clamp, of.loss, ir::Clamp{1.0, most_tokens});  // num_items_in_batch's
  const V loss = unary(OpKind::div, total, ir::Number{static_cast<double>(tokens)});
  if (of.balance != ir::no_id)
    share_of_balance_ = unary(OpKind::mul_scalar, of.balance, ir::Number{1.0});
  logged(of.mask, of.entropy, of.likeliest);
  hold({hidden_, of.mask, of.log_probs, of.entropy, of.likeliest,
        of.loss});  // the model's and compute_loss's locals
  hold({held_of_head_[0], held_of_head_[1], held_of_head_[2]});
  s_.loss = loss;
  s_.outputs = {of.log_probs};
}

}  // namespace ac_advisor::passes
