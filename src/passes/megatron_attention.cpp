// Megatron-core's SelfAttention and what it attends with: its own DotProductAttention
// (transformer/dot_product_attention.py), or Transformer Engine's unfused, flash and cuDNN ones
// (pytorch/attention/dot_product_attention/backends.py).
#include "megatron_layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// fused_apply_rotary_pos_emb: a new tensor of each; the angles are saved, not what is rotated.
ir::ValueId MegatronLayers::rotated(V x) {
  leaf_ = Module::rope;
  const V y = plain(shape(x), dtype_), angles = m_.inv_freq.front();
  emit(OpKind::generated, {x, angles}, {y}, ir::Generated{});
  CompiledGraph g;
  g.made = {{shape(x), dtype_, -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, leaf_, {2, 1}, {3}}};
  g.results = {3, -1};
  return node(OpKind::autograd_function, {x, angles}, y, std::move(g));
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

/// q, k and v [S, B, heads, D] as views; products by head, all scores at once.
ir::ValueId MegatronLayers::unfused_core(V q, V k, V v) {
  leaf_ = Module::attention_core;
  const Shape s = shape(q);
  const std::int64_t n = s[2], d = s[3];
  const auto by_head = [&](V x) { return p_.reshape(x, {batch_, n, seq_, d}, true); };
  const Shape square{batch_, n, seq_, seq_};
  V unread = m_.memory_buffer;  // what baddbmm's beta of 0 does not read
  if (engine()) {
    unread = plain(square, dtype_);
    emit(OpKind::empty, {}, {unread});
  }
  const V query = by_head(q), key = by_head(k), value = by_head(v);
  const V scores = bf16(square);
  emit(OpKind::bmm, {query, key}, {scores}, ir::Product{static_cast<std::int32_t>(d)});
  hold({unread});
  const V weights = dropped(scaled_softmax(scores), attention_dropout_);
  const V mixed = bf16({batch_, n, seq_, d});
  emit(OpKind::bmm, {weights, value}, {mixed},
       ir::Product{static_cast<std::int32_t>(seq_), ir::Form::nn});
  const V context = bf16({seq_, batch_, n * d});
  emit(OpKind::clone, {p_.reshape(mixed, {seq_, batch_, n * d})}, {context});
  hold({scores, weights, mixed});
  return context;
}

/// FlashAttention takes [B, S, heads, D] and its result is copied back to [S, B, ...]; cuDNN's
/// kernel takes and makes [S, B, heads, D].
ir::ValueId MegatronLayers::fused_core(V q, V k, V v) {
  leaf_ = Module::attention_core;
  const Shape s = shape(q);
  const std::int64_t n = s[2], d = s[3], kv = shape(k)[2];
  const V query = p_.reshape(q, {batch_, n, seq_, d}, true);
  const V key = p_.reshape(k, {batch_, kv, seq_, d}, true),
          value = p_.reshape(v, {batch_, kv, seq_, d}, true);
  const V mixed = bf16({batch_, n, seq_, d});
  p_.value(mixed).permuted = true;
  const V log_sums = plain({batch_, n, seq_}, DType::f32), state = plain({2}, DType::i64);
  const V no_debug_mask = p_.on_storage_of(state, {}, DType::i64, false);
  const bool cudnn = config_.run.attention != Attention::flash;  // auto: cuDNN
  emit(OpKind::sdpa, {query, key, value}, {mixed, log_sums, state, no_debug_mask},
       ir::Sdpa{spec_.attention_scale, 0, cudnn ? ir::SdpaKernel::cudnn : ir::SdpaKernel::flash});
  const Shape merged{seq_, batch_, n * d};
  if (cudnn) return p_.reshape(mixed, merged);
  const V context = bf16(merged);
  emit(OpKind::clone, {p_.reshape(mixed, merged)}, {context});
  return context;
}

/// SelfAttention.forward. The projection's rows are grouped by heads of keys: its parts are views,
/// but for queries of several a group, which are copied together.
ir::ValueId MegatronLayers::attention(const Block& b, V x) {
  const V mixed = linear(x, b.qkv.weight, b.qkv.bias, Split::columns, Module::qkv_proj);
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
  const V v = view_of_mixed(groups);
  emit(OpKind::split, {mixed}, {q, k, v});
  if (queries > 1) {
    const V copy = bf16(shape(q));
    emit(OpKind::clone, {q}, {copy});
    q = copy;
  }
  if (spec_.qk_norm) {
    q = norm(q, b.q_norm, b.q_norm_bias, Module::q_norm);
    k = norm(k, b.k_norm, b.k_norm_bias, Module::k_norm);
  }
  if (spec_.rotates()) q = rotated(q), k = rotated(k);
  const bool unfused = config_.run.attention == Attention::eager || !engine();
  const V context = unfused ? unfused_core(q, k, v) : fused_core(q, k, v);
  return linear(context, b.o.weight, ir::no_id, Split::rows, Module::o_proj);
}

}  // namespace ac_advisor::passes
