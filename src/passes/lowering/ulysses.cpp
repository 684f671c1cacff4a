// Ulysses sequence parallelism of one rank, by DeepSpeed 0.19.8 (deepspeed/runtime/
// sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF.forward): a rank has one chunk of each
// sequence; for attention it has all tokens of a part of the heads instead.
#include <limits>
#include <span>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::Moved;
using ir::OpKind;
using ir::Shape;

namespace {

std::int32_t ranks_of(const StepConfig& config) {
  return static_cast<std::int32_t>(config.layout.cp);
}

}  // namespace

/// x in another order: what PyTorch's permute, reshape and contiguous copy.
ir::ValueId Lowering::moved(V x, const Shape& size, Moved what) {
  const V y = out(size, dtype(x), grad(x));
  emit(OpKind::clone, {x}, {y}, ir::Rearrange{what, ranks_of(config_)});
  return y;
}

ir::ValueId Lowering::exchanged(V x, Moved back) {
  const V y = out(shape(x), dtype(x), grad(x));
  emit(OpKind::cp_all_to_all, {x}, {y}, ir::Exchange{back, ranks_of(config_)});
  return y;
}

/// torch.distributed.all_gather: a list of what each rank has, through a buffer
/// (ProcessGroupNCCL.cpp, v2.11); and, last, the list joined to `size`.
std::vector<ir::ValueId> Lowering::gathered_list(V x, const Shape& size) {
  const std::int64_t ranks = config_.layout.cp;
  const Shape own = shape(x).rank() > 0 ? shape(x) : Shape{1};
  const std::int64_t rows = own[0];
  Shape whole = own;
  whole.set(0, ranks * rows);
  const V flat = make_int(OpKind::cp_all_gather, whole, dtype(x), {x});
  std::vector<V> all;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    all.push_back(make_int(OpKind::clone, own, dtype(x), {p_.narrow(flat, 0, rank * rows, rows)}));
  const V joined = out(size, dtype(x), false);
  p_.emit(OpKind::cat, phase_, at(leaf_), all, std::span<const V>(&joined, 1));
  all.push_back(joined);
  return all;
}

/// Each layer gathers all positions, which live as long as the frame.
std::vector<ir::ValueId> Lowering::gathered_positions() {
  if (config_.runtime.kind != Runtime::pytorch) return {};
  return gathered_list(positions_, {config_.run.batch, config_.layout.cp * config_.run.seq});
}

/// _combine_local_sequences: (B, h, S / R, D) to (S, B, h / R, D). Heads that are fewer than the
/// ranks are repeated first.
ir::ValueId Lowering::whole_sequences(V x) {
  const std::int64_t ranks = config_.layout.cp;
  Shape s = shape(x);
  if (s[1] < ranks) {
    const auto times = static_cast<std::int32_t>(ranks / s[1]);
    s.set(1, ranks);
    const V copies = out(s, dtype(x), grad(x));
    emit(OpKind::clone, {x}, {copies}, ir::Rearrange{Moved::heads_repeated, times});
    x = copies;
  }
  const std::int64_t local = s[1] / ranks;
  const V parts = moved(x, {ranks * s[2], s[0], local, s[3]}, Moved::heads_apart);
  return exchanged(parts, s[0] > 1 || local > 1 ? Moved::tokens_first : Moved::nothing);
}

/// (S, B, h, D) to (B, h, S, D): of one head of one sequence it is the same.
ir::ValueId Lowering::heads_first(V x) {
  const Shape s = shape(x), size{s[1], s[2], s[0], s[3]};
  return s[1] == 1 && s[2] == 1 ? p_.reshape(x, size) : moved(x, size, Moved::tokens_last);
}

/// _partition_global_sequence: (B, S, w) to (S / R, B, R w).
ir::ValueId Lowering::whole_widths(V x) {
  const std::int64_t ranks = config_.layout.cp;
  const Shape s = shape(x), turned{s[1], s[0], s[2]};
  const V parts = s[0] == 1 ? p_.reshape(x, turned) : moved(x, turned, Moved::sequences_inside);
  const V all = exchanged(parts, Moved::widths_apart);
  const V y = moved(all, {s[1] / ranks, s[0], ranks * s[2]}, Moved::widths_together);
  hold({parts});
  return y;
}

/// (B, heads, S / R, D) each, to (B, S / R, heads x D).
ir::ValueId Lowering::ulysses_attention(V q, V k, V v) {
  std::vector<V> frame = gathered_positions();
  const V q_parts = whole_sequences(q);
  const V k_parts = whole_sequences(k);
  const V v_parts = whole_sequences(v);
  const V query = heads_first(q_parts);
  const V key = heads_first(k_parts);
  const V value = heads_first(v_parts);
  V y = attended(query, key, value, ir::no_id, {.scale = spec_.score_scale()});
  const Shape s = shape(y);
  if (s[1] > 1 && !p_.value(y).permuted) y = heads_last(y);
  y = p_.reshape(y, {s[0], s[2], s[1] * s[3]});
  const V widths = whole_widths(y);
  frame.insert(frame.end(), {query, key, value, y});
  hold_all(frame);
  const Shape own = shape(widths), size{own[1], own[0], own[2]};
  return s[0] == 1 ? p_.reshape(widths, size) : moved(widths, size, Moved::sequences_outside);
}

/// transformers v5.23, integrations/deepspeed.py, deepspeed_sp_compute_loss: the ranks' losses,
/// weighted by how many labels each has.
ir::ValueId Lowering::weighted_loss(V loss, V labels) {
  const std::int64_t ranks = config_.layout.cp;
  const Shape all{ranks};
  std::vector<V> frame = gathered_list(loss, all);
  const V losses = frame.back();
  const V counted = make_int(OpKind::compare, shape(labels), DType::u8, {labels},
                             ir::Compare{-100.0, ir::Comparison::not_equal});
  const V wide = make_int(OpKind::cast, shape(labels), DType::i64, {counted});  // sum's own
  const V own = make_int(OpKind::sum, {}, DType::i64, {wide});
  const std::vector<V> counts_of = gathered_list(own, all);
  const V counts = counts_of.back();
  const V any = make_int(OpKind::compare, all, DType::u8, {counts},
                         ir::Compare{0.0, ir::Comparison::not_equal});
  const V zeros = make_int(OpKind::fill, all, DType::f32, {});
  const V safe = make_int(OpKind::masked_fill, all, DType::f32, {any, losses, zeros});
  const V weighted = make_int(OpKind::mul, all, DType::f32, {safe, counts});
  const V total = make_int(OpKind::sum, {}, DType::f32, {weighted});
  const V count = make_int(OpKind::sum, {}, DType::i64, {counts});
  constexpr double most = std::numeric_limits<double>::infinity();
  const V divisor = make_int(OpKind::clamp, {}, DType::i64, {count}, ir::Clamp{1.0, most});
  const V mean = make_int(OpKind::div, {}, DType::f32, {total, divisor});
  hold_all(frame);
  hold_all(counts_of);
  hold({own, any, safe, total, count});
  const V y = p_.on_storage_of(mean, {}, DType::f32, false);
  p_.value(y).requires_grad = true;
  emit(OpKind::weighted_loss, {loss, counts, any, divisor}, {y},
       ir::TpScatter{ranks_of(config_), 0});
  return y;
}

}  // namespace ac_advisor::passes
