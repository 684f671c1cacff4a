// Megatron-core's SelfAttention and what it attends with: its own DotProductAttention
// (transformer/dot_product_attention.py), or Transformer Engine's unfused, flash and cuDNN ones
// (pytorch/attention/dot_product_attention/backends.py).
#include <algorithm>

#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// fused_apply_rotary_pos_emb: a new tensor of each; the angles are saved, not what is rotated.
ir::ValueId MegatronLayers::rotated(V x) {
  if (spec_.unfused_rotary) return rotated_by_parts(x);
  leaf_ = Module::rope;
  const V y = plain(shape(x), dtype_), angles = m_.inv_freq.front();
  emit(OpKind::generated, {x, angles}, {y}, ir::Generated{});
  CompiledGraph g;
  g.made = {{shape(x), dtype_, -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, leaf_, {2, 1}, {3}}};
  g.results = {3, -1};
  return node(OpKind::autograd_function, {x, angles}, y, std::move(g));
}

/// _apply_rotary_pos_emb_bshd (models/common/embeddings/rope_utils.py): cosines and sines of the
/// angles for each tensor, saved; what passes is joined again though nothing passes.
ir::ValueId MegatronLayers::rotated_by_parts(V x) {
  leaf_ = Module::rope;
  const Shape whole = shape(x);
  const std::int64_t width = whole.back(), rotated = std::min(width, spec_.rotary_dim);
  const auto columns = [&](V from, std::int64_t size, std::int64_t start) {
    Shape narrow = shape(from);
    narrow.set(narrow.rank() - 1, size);
    const V y = p_.on_storage_of(from, narrow, dtype_, false);
    p_.value(y).requires_grad = true;
    emit(OpKind::slice, {from}, {y}, ir::Slice{static_cast<std::int32_t>(start)});
    return y;
  };
  const V angles = m_.inv_freq.front();
  const auto table = [&](OpKind kind) {
    const V wide = plain(shape(angles), DType::f32), scaled = plain(shape(angles), DType::f32);
    emit(kind, {angles}, {wide});
    emit(OpKind::mul_scalar, {wide}, {scaled}, ir::Number{1.0});
    const V narrow = plain(shape(angles), dtype_);
    emit(OpKind::cast, {scaled}, {narrow});
    return narrow;
  };
  V t = rotated < width ? columns(x, rotated, 0) : x;
  const V passing = columns(x, width - rotated, rotated);
  if (spec_.latent) {  // pairs that are neighbours
    const V even = columns(t, rotated / 2, 0), odd = columns(t, rotated / 2, 1);
    t = bf16(shape(t));
    emit(OpKind::cat, {even, odd}, {t});
  }
  const V cosines = table(OpKind::cos), sines = table(OpKind::sin);
  const auto times = [&](V a, V b) {
    const V y = bf16(shape(t));
    emit(OpKind::mul, {a, b}, {y});
    return y;
  };
  const V straight = times(t, cosines);
  Shape half = shape(t);
  half.set(half.rank() - 1, rotated / 2);
  const V first = p_.on_storage_of(t, half, dtype_, false),
          second = p_.on_storage_of(t, half, dtype_, false), minus = bf16(half),
          crossed = bf16(shape(t));
  p_.value(first).requires_grad = p_.value(second).requires_grad = true;
  emit(OpKind::split, {t}, {first, second});
  emit(OpKind::neg, {second}, {minus});
  emit(OpKind::cat, {minus, first}, {crossed});
  const V across = times(crossed, sines), sum = bf16(shape(t)), y = bf16(whole);
  emit(OpKind::add, {straight, across}, {sum}, ir::Add{});
  emit(OpKind::cat, {sum, passing}, {y});
  return y;
}

/// scaled_upper_triang_masked_softmax: saves its result; its gradient is written over the one that
/// comes.
ir::ValueId MegatronLayers::scaled_softmax(V scores) {
  const V weights = plain(shape(scores), dtype_);
  emit(OpKind::softmax, {scores}, {weights});
  CompiledGraph g;
  // scores, weights, gradient
  g.made = {{shape(scores), dtype_, 2}};
  g.launches = {{OpKind::generated, ir::Generated{}, leaf_, {2, 1}, {3}}};
  g.results = {3, -1};
  return node(OpKind::autograd_function, {scores, weights}, weights, std::move(g));
}

/// get_full_mask (utils.py): what nothing reads of a causal mask, where positions are apart by a
/// window's width, and the batch's mask.
ir::ValueId MegatronLayers::full_mask() {
  const Shape one{1, 1, seq_, seq_};
  const auto made = [&](DType type, const Shape& size, std::initializer_list<V> of,
                        std::int32_t launches = 1) {
    const V y = plain(size, type);
    emit(OpKind::generated, of, {y}, ir::Generated{launches});
    return y;
  };
  const auto boolean = [&](std::initializer_list<V> of) { return made(DType::u8, one, of); };
  const V steps = made(DType::i32, one, {}, 3), left = made(DType::i32, one, {steps}),
          right = made(DType::i32, one, {steps});
  const V in_left = boolean({left}), in_right = boolean({boolean({right})}),
          window = boolean({boolean({in_left, in_right})});
  const V mask = mask_ == ir::no_id ? window : made(DType::u8, shape(mask_), {window, mask_});
  hold({steps, left, right, window});
  return mask;
}

/// q, k and v [S, B, heads, D] as views; products by head, all scores at once.
ir::ValueId MegatronLayers::unfused_core(V q, V k, V v) {
  leaf_ = Module::attention_core;
  const Shape s = shape(q);
  const std::int64_t n = s[2], d = s[3], of_values = shape(v)[3], shared = n / shape(k)[2];
  k = repeated(k, 2, shared);  // repeat_interleave
  v = repeated(v, 2, shared);
  const auto by_head = [&](V x) { return p_.reshape(x, {batch_, n, seq_, shape(x)[3]}, true); };
  const Shape square{batch_, n, seq_, seq_};
  V unread = m_.memory_buffer;  // what baddbmm's beta of 0 does not read
  const V mask = engine() ? full_mask() : ir::no_id;
  if (engine()) {
    unread = plain(square, dtype_);
    emit(OpKind::empty, {}, {unread});
  }
  const V query = by_head(q), key = by_head(k), value = by_head(v);
  const V scores = bf16(square);
  emit(OpKind::bmm, {query, key}, {scores}, ir::Product{static_cast<std::int32_t>(d)});
  hold({unread});
  const V weights = dropped(scaled_softmax(scores), attention_dropout_);
  const V mixed = bf16({batch_, n, seq_, of_values});
  emit(OpKind::bmm, {weights, value}, {mixed},
       ir::Product{static_cast<std::int32_t>(seq_), ir::Form::nn});
  const V context = bf16({seq_, batch_, n * of_values});
  emit(OpKind::clone, {p_.reshape(mixed, {seq_, batch_, n * of_values})}, {context});
  hold({mask, scores, weights, mixed, shared > 1 ? k : ir::no_id, shared > 1 ? v : ir::no_id});
  return context;
}

/// What FlashAttention takes: [S, B, heads, D] as [B, heads, S, D], copied unless it is contiguous
/// in the order [B, S, heads, D].
ir::ValueId MegatronLayers::by_sequence(V x, bool contiguous) {
  const Shape s = shape(x), order{batch_, s[2], seq_, s[3]};
  if (contiguous && batch_ == 1) return p_.reshape(x, order, true);
  const V y = bf16({batch_, seq_, s[2], s[3]});
  emit(OpKind::clone, {p_.reshape(x, shape(y), true)}, {y});
  return p_.reshape(y, order, true);
}

MegatronLayers::Heads MegatronLayers::by_sequence(const Heads& h) {
  const Shape s = shape(h.q);
  constexpr std::int64_t prepared_dim = 128, prepared_tokens = 512;
  const bool interleaved = !h.own_q && !h.own_k;  // Transformer Engine's layout sbh3d
  if (!interleaved || s[3] != prepared_dim || seq_ * batch_ < prepared_tokens)
    return {by_sequence(h.q, h.own_q), by_sequence(h.k, h.own_k), by_sequence(h.v, h.own_v)};
  // _PrepareQKVForFA: one tensor for all three.
  const V all = plain({3, batch_, seq_, s[2], s[3]}, dtype_);
  emit(OpKind::empty, {}, {all});
  const Shape one{batch_, seq_, s[2], s[3]}, order{batch_, s[2], seq_, s[3]};
  const auto in_all = [&](V x) {
    const V y = p_.on_storage_of(all, one, dtype_, true);
    p_.value(y).requires_grad = true;
    emit(OpKind::clone, {p_.reshape(x, one, true)}, {y});
    return p_.reshape(y, order, true);
  };
  const V q = in_all(h.q), k = in_all(h.k);
  return {q, k, in_all(h.v)};
}

/// FlashAttention's result [B, S, heads, D] is copied to [S, B, ...], unless that is the same.
ir::ValueId MegatronLayers::by_token(V mixed, std::int64_t width) {
  const Shape merged{seq_, batch_, width};
  if (batch_ == 1) return p_.reshape(mixed, merged);
  const V context = bf16(merged);
  emit(OpKind::clone, {p_.reshape(mixed, merged)}, {context});
  return context;
}

/// FlashAttention takes [B, S, heads, D]; cuDNN's kernel takes and makes [S, B, heads, D]. A window
/// is an argument of both.
ir::ValueId MegatronLayers::fused_core(const Heads& h) {
  leaf_ = Module::attention_core;
  const bool cudnn = config_.run.attention != Attention::flash;  // auto: cuDNN
  const Shape s = shape(h.q);
  const std::int64_t n = s[2], d = s[3], kv = shape(h.k)[2], of_values = shape(h.v)[3];
  const Heads given = cudnn ? Heads{p_.reshape(h.q, {batch_, n, seq_, d}, true),
                                    p_.reshape(h.k, {batch_, kv, seq_, d}, true),
                                    p_.reshape(h.v, {batch_, kv, seq_, of_values}, true)}
                            : by_sequence(h);
  const V mixed = bf16({batch_, n, seq_, of_values});
  p_.value(mixed).permuted = true;
  const std::int64_t window =
      spec_.window.empty() ? 0 : spec_.window[static_cast<std::size_t>(block_)];
  const V log_sums = plain({batch_, n, seq_}, DType::f32), state = plain({2}, DType::i64);
  const V no_debug_mask = p_.on_storage_of(state, {}, DType::i64, false);
  emit(OpKind::sdpa, {given.q, given.k, given.v}, {mixed, log_sums, state, no_debug_mask},
       ir::Sdpa{spec_.attention_scale, static_cast<std::int32_t>(window < seq_ ? window : 0),
                cudnn ? ir::SdpaKernel::cudnn : ir::SdpaKernel::flash});
  if (cudnn) return p_.reshape(mixed, {seq_, batch_, n * of_values});
  const V context = by_token(mixed, n * of_values);
  hold({given.q, given.k, given.v});
  return context;
}

/// SelfAttention.forward. The projection's rows are grouped by heads of keys: its parts are views,
/// but for queries of several a group, which are copied together.
ir::ValueId MegatronLayers::attention(const Block& b, V x) {
  if (spec_.latent) return latent_attention(b, x);
  const NormOf before{b.norm1, b.norm1_bias, Module::norm1};
  if (engine())
    return attention_of(b, normed_linear(x, before, b.qkv, b.qkv.bias, Module::qkv_proj));
  const ir::OpId begin = next_op();
  const V normed = norm(x, before.weight, before.bias, before.leaf);
  RecomputedPart of_norm = written(begin, {normed});
  const V y =
      attention_of(b, linear(normed, b.qkv.weight, b.qkv.bias, Split::columns, Module::qkv_proj));
  let_go(LayerPart::layernorm, std::move(of_norm), y);
  return y;
}

ir::ValueId MegatronLayers::attention_of(const Block& b, V mixed) {
  leaf_ = Module::attention;
  const std::int64_t d = spec_.head_dim, n = part(spec_.heads), groups = part(spec_.kv_heads),
                     queries = n / groups;
  const auto view_of_mixed = [&](std::int64_t heads) {
    const V y = p_.on_storage_of(mixed, {seq_, batch_, heads, d}, dtype_, false);
    p_.value(y).requires_grad = true;
    return y;
  };
  V q = view_of_mixed(n);
  V k = view_of_mixed(groups);
  V v = view_of_mixed(groups);
  emit(OpKind::split, {mixed}, {q, k, v});
  const V split_q = q, split_k = k, split_v = v;
  const auto copied = [&](V view) {
    const V copy = bf16(shape(view));
    emit(OpKind::clone, {view}, {copy});
    return copy;
  };
  if (queries > 1 && groups > 1) q = copied(q);  // of one group they are a view
  if (spec_.qk_norm) {
    if (engine()) {  // its norms save what they read in one piece
      if (q == split_q) q = copied(q);
      k = copied(k);
    }
    q = norm(q, b.q_norm, b.q_norm_bias, Module::q_norm);
    k = norm(k, b.k_norm, b.k_norm_bias, Module::k_norm);
  }
  if (spec_.rotates()) q = rotated(q), k = rotated(k);
  const ir::OpId begin = next_op();
  hold({mask_});
  leaf_ = Module::attention_core;
  if (queries > 1 && q == split_q) q = copied(q);  // which stand beside no keys of theirs
  if (engine() && q != split_q) {  // get_qkv_layout copies what stands in no order that it knows
    leaf_ = Module::attention_core;
    if (k == split_k) k = copied(k);
    v = copied(v);
  }
  const Attention by = config_.run.attention;
  const Heads heads{q, k, v, q != split_q, k != split_k, v != split_v};
  const V context = config_.layout.cp > 1                 ? ring_core(heads)
                    : by == Attention::eager || !engine() ? unfused_core(q, k, v)
                                                          : fused_core(heads);
  checkpoint(LayerPart::core_attn, begin);
  const V y = linear(context, b.o, Split::rows, Module::o_proj);
  if (by == Attention::flash) hold({q, k, v});  // SelfAttention.forward's own, beside the copies
  return y;
}

}  // namespace ac_advisor::passes
