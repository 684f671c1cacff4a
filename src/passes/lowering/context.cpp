// Context parallelism of one rank, by PyTorch's ring attention (v2.11, torch/distributed/tensor/
// experimental/_context_parallel/_attention.py: _templated_ring_attention, _SDPAMerger), applied as
// TorchTitan v0.2.2 does (distributed/context_parallel.py): a rank has two chunks of each sequence,
// one from either end. With keys and values of a rank before it in the ring it attends to their
// first chunk by all of its queries, with those of a rank behind it to all by its second chunk's.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

ir::ValueId Lowering::contiguous(V x) {
  const Shape s = shape(x);
  if (!p_.value(x).permuted || s[1] == 1) return x;
  const V y = out(s, dtype(x), false);
  emit(OpKind::clone, {x}, {y});
  return y;
}

/// (B, heads, tokens, D) of this rank's tokens. What the ring makes needs no gradient: its backward
/// is the node's own.
ir::ValueId Lowering::ring_attention(V q, V k, V v, ir::Sdpa attributes) {
  const auto first = last_op() + 1;
  const Attention asked = config_.run.attention;
  attributes.kernel = asked == Attention::flash   ? ir::SdpaKernel::flash
                      : asked == Attention::cudnn ? ir::SdpaKernel::cudnn
                                                  : ir::SdpaKernel::automatic;
  const std::int64_t ranks = config_.layout.cp, rank = config_.layout.context_rank();
  const bool exchanged = config_.layout.cp_method == CpMethod::all_to_all;
  const Shape queries = shape(q), keys = shape(k);
  const std::int64_t part = keys.numel(), half = queries[2] / 2;
  const DType type = dtype(q);
  const auto plain = [&](const Shape& s, DType t) { return out(s, t, false); };
  const auto made = [&](OpKind kind, V like, std::initializer_list<V> in,
                        const ir::Attributes& a = {}) {
    const Shape s = shape(like);
    const V y = plain(s, DType::f32);
    p_.value(y).permuted = p_.value(like).permuted;
    emit(kind, in, {y}, a);
    return y;
  };
  const auto second_chunk = [&](V x) { return p_.narrow(x, 2, half, half); };
  const auto joined = [&](V first_chunk, V second, const Shape& s) {
    const V y = plain(s, DType::f32);
    emit(OpKind::cat, {first_chunk, second}, {y});
    return y;
  };

  V key = contiguous(k), value = contiguous(v);
  V sent = ir::no_id, gathered = ir::no_id, arrived = ir::no_id;
  V last_out = ir::no_id, sum = ir::no_id, log_sums = ir::no_id;
  V seed = ir::no_id, unused = ir::no_id;
  for (std::int64_t i = 0; i < ranks; ++i) {
    if (i > 0) {
      // What was sent, until that was waited for; keys and values, until bound to what came.
      hold({sent, key, value});
      const V from = exchanged ? arrived : gathered;
      const std::int64_t at = exchanged ? 0 : (rank + ranks - i) % ranks * 2 * part;
      key = p_.reshape(p_.narrow(from, 0, at, part), keys);
      value = p_.reshape(p_.narrow(from, 0, at + part, part), keys);
    }
    if (i + 1 < ranks) {
      const V flat = plain({2 * part}, type);
      emit(OpKind::cat, {p_.reshape(key, {part}), p_.reshape(value, {part})}, {flat});
      if (exchanged) {
        sent = flat;
        const V next = plain({2 * part}, type);
        emit(OpKind::ring_exchange, {sent}, {next});
        arrived = next;
      } else if (i == 0) {
        sent = flat;
        gathered = plain({ranks * 2 * part}, type);
        emit(OpKind::cp_all_gather, {sent}, {gathered});
      } else {
        sent = ir::no_id;  // made, and dropped by a rotater that has gathered all
      }
    }
    const bool before = i <= rank;
    const V query = before ? q : second_chunk(q);
    const auto seen = [&](V x) { return i == 0 || !before ? x : p_.narrow(x, 2, 0, half); };
    const Shape size = shape(query);
    const V mine = plain({size[0], size[1], size[2], shape(v)[3]}, type);
    p_.value(mine).permuted = p_.value(q).permuted;
    const V log_sum = plain({size[0], size[1], size[2]}, DType::f32);
    seed = plain({2}, DType::i64), unused = plain({}, DType::i64);
    attributes.causal = i == 0;
    emit(OpKind::sdpa, {query, seen(key), seen(value)}, {mine, log_sum, seed, unused}, attributes);
    hold({last_out});  // `out`, until it is bound anew
    last_out = mine;
    const V wide = type == DType::f32 ? mine : made(OpKind::cast, mine, {mine});
    const V wide_log = p_.reshape(log_sum, {size[0], size[1], size[2], 1});
    if (i == 0) {
      sum = wide, log_sums = wide_log;
      continue;
    }
    const V old = before ? sum : second_chunk(sum),
            old_log = before ? log_sums : second_chunk(log_sums);
    // out - sigmoid(block_lse - lse) * (out - block_out); lse - logsigmoid(lse - block_lse)
    const V share = made(OpKind::sigmoid, wide_log,
                         {made(OpKind::add, wide_log, {wide_log, old_log}, ir::Add{-1.0})});
    const V apart = made(OpKind::add, old, {old, wide}, ir::Add{-1.0});
    const V moved = made(OpKind::mul, old, {share, apart});
    const V merged = made(OpKind::add, old, {old, moved}, ir::Add{-1.0});
    const V less = made(OpKind::log_sigmoid, wide_log,
                        {made(OpKind::add, wide_log, {old_log, wide_log}, ir::Add{-1.0})});
    const V merged_log = made(OpKind::add, wide_log, {old_log, less}, ir::Add{-1.0});
    const V whole_sum = sum, whole_log = log_sums;
    if (before) {
      sum = merged, log_sums = merged_log;
    } else {
      const Shape logs = shape(log_sums), all = shape(sum);
      log_sums = joined(p_.narrow(whole_log, 2, 0, half), merged_log, logs);
      sum = joined(p_.narrow(whole_sum, 2, 0, half), merged, all);
    }
    hold({whole_sum, whole_log, wide, merged, merged_log});
  }
  const V narrow = type == DType::f32 ? sum : plain(queries, type);
  if (narrow != sum) {
    p_.value(narrow).permuted = p_.value(sum).permuted;
    emit(OpKind::cast, {sum}, {narrow});
  }
  hold({sum, log_sums, last_out, gathered, arrived, key, value});  // the frame ends
  const auto node_output = [&](V x, const Shape& s, bool trained) {
    const V y = p_.on_storage_of(x, s, dtype(x), false);
    p_.value(y).requires_grad = trained;
    return y;
  };
  const bool trained = grad(q) || grad(k) || grad(v);
  const Shape made_shape = shape(narrow);
  const V y = node_output(narrow, made_shape, trained);
  emit(OpKind::ring_attention, {q, k, v},
       {y, node_output(log_sums, {queries[0], queries[1], queries[2]}, false),
        node_output(seed, {2}, false), node_output(unused, {}, false)},
       ir::RingAttention{
           attributes.scale, static_cast<std::uint16_t>(ranks), static_cast<std::uint16_t>(rank),
           static_cast<std::uint16_t>(last_op() + 1 - first), attributes.kernel, exchanged});
  return y;
}

}  // namespace ac_advisor::passes
