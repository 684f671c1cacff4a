// transformers v5.23: attention whose scores are computed in other ways than by
// eager_attention_forward (gptj, bloom), or by PyTorch's attention where it has no kernel (falcon),
// and falcon's heads.
#include <algorithm>
#include <cmath>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Comparison;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// GPTJAttention._attn: the product of q and k, and all until the weights, in fp32.
ir::ValueId Lowering::fp32_core(V q, V k, V v) {
  const Shape s = shape(q);
  const V wide_q = cast(q, DType::f32), wide_k = cast(k, DType::f32);
  const V query = folded(wide_q), key = folded(wide_k);
  const V scores = out({s[0], s[1], s[2], s[2]}, DType::f32, grad(q) || grad(k));
  emit(OpKind::bmm, {query, key}, {scores}, ir::Product{static_cast<std::int32_t>(s[3])});
  const V scaled =
      unary(OpKind::div, scores, ir::Number{std::sqrt(static_cast<double>(spec_.head_dim))});
  const V masked = binary(OpKind::add, scaled, full_mask_);
  const V weights = dropped(cast(unary(OpKind::softmax, masked), dtype(v)), dropout_);
  const V mixed = weighted(weights, folded(v));
  hold({wide_q, wide_k});
  const V y = heads_last(mixed);
  frame_.push_back(weights);
  attention_weights_ = weights;
  return y;
}

/// BloomModel.forward: slopes by head times positions, for each sequence's heads.
ir::ValueId Lowering::alibi_bias() {
  leaf_ = Module::root;
  std::int64_t power = 1;
  while (2 * power <= spec_.heads) power *= 2;
  const auto slopes_of = [&](std::int64_t count) {
    const V base = make_int(OpKind::fill, {}, DType::f32, {});
    const V powers = make_int(OpKind::arange, {count}, DType::i32, {});
    return make_int(OpKind::pow, {count}, DType::f32, {base, powers});
  };
  V slopes = slopes_of(power);
  if (const std::int64_t left = std::min(power, spec_.heads - power); left > 0)
    slopes = make_int(OpKind::cat, {spec_.heads}, DType::f32, {slopes, slopes_of(left)});
  const std::int64_t n = spec_.heads, s = config_.run.seq, b = config_.run.batch;
  const V positions = make_int(OpKind::arange, {s}, DType::i64, {});
  const V one = make_int(OpKind::mul, {n, 1, s}, DType::f32, {slopes, positions});
  const V all = make_int(OpKind::clone, {b * n, 1, s}, DType::f32, {one});  // repeat
  const V bias = cast(all, dtype_);
  alibi_slopes_ = slopes;  // the frame's
  return bias;
}

/// BloomAttention.forward: baddbmm adds the bias to the scaled product.
ir::ValueId Lowering::alibi_core(V q, V k, V v) {
  const Shape s = shape(q);
  const V query = folded(q), key = folded(k), value = folded(v);
  const V scores = out({s[0], s[1], s[2], s[2]}, dtype(q), grad(q) || grad(k));
  ir::Product product{static_cast<std::int32_t>(s[3])};
  product.alpha = spec_.attention_scale;
  emit(OpKind::baddbmm, {alibi_, query, key}, {scores}, product);
  const V masked = binary(OpKind::add, scores, full_mask_);
  const V weights =
      dropped(cast(unary(OpKind::softmax, cast(masked, DType::f32)), dtype(q)), dropout_);
  const V y = heads_last(weighted(weights, value));
  frame_.insert(frame_.end(), {query, key, value, scores, masked, weights, y});
  attention_weights_ = weights;
  return y;
}

/// scaled_dot_product_attention's own mask where it is told that attention is causal.
ir::ValueId Lowering::lower_triangle(DType type) {
  const std::int64_t s = config_.run.seq;
  const V ones = make_int(OpKind::fill, {s, s}, DType::u8, {});
  const V allowed = make_int(OpKind::compare, {s, s}, DType::u8, {ones});  // tril
  return additive_mask(allowed, type, {s, s});
}

/// _scaled_dot_product_attention_math (aten/src/ATen/native/transformers/attention.cpp, v2.11): in
/// fp32, q and k each scaled by the root of the scale. Without a mask transformers says enable_gqa:
/// shared keys and values are repeated first. With one, a head that all queries share is multiplied
/// as it is.
ir::ValueId Lowering::math_core(V q, V k, V v, V mask) {
  const Shape s = shape(q);
  leaf_ = Module::attention_core;
  const V wide_q = cast(q, DType::f32), wide_k = cast(k, DType::f32), wide_v = cast(v, DType::f32);
  const ir::Number root{std::sqrt(spec_.score_scale())};
  const V scaled_q = unary(OpKind::mul_scalar, wide_q, root);
  const bool given = mask != ir::no_id;
  if (!given) mask = lower_triangle(DType::f32);
  leaf_ = Module::attention_core;
  const V keys = given ? wide_k : repeat_kv(wide_k), values = given ? wide_v : repeat_kv(wide_v);
  const V scaled_k = unary(OpKind::mul_scalar, keys, root);
  const auto for_all = [&](V x) {
    if (shape(x)[1] == s[1]) return folded(x);
    return s[0] == 1 ? repeated_heads(x) : repeat_kv(x);
  };
  const V query = folded(scaled_q), key = for_all(scaled_k);
  const Shape square{s[0], s[1], s[2], s[2]};
  const V product = out(square, DType::f32, grad(q) || grad(k));
  emit(OpKind::bmm, {query, key}, {product}, ir::Product{static_cast<std::int32_t>(s[3])});
  const V scores = p_.on_storage_of(product, square, DType::f32, true);
  p_.value(scores).requires_grad = grad(product);
  emit(OpKind::add, {product, mask}, {scores});
  // _safe_softmax
  const V some = make_int(OpKind::softmax, square, DType::f32, {scores});
  const V infinity = make_int(OpKind::fill, {}, DType::f32, {});
  const V masked = make_int(OpKind::compare, square, DType::u8, {scores, infinity},
                            ir::Compare{0.0, Comparison::not_equal});
  const V rows = make_int(OpKind::amax, {s[0], s[1], s[2], 1}, DType::u8, {masked});
  const V weights = p_.on_storage_of(some, square, DType::f32, true);
  p_.value(weights).requires_grad = grad(scores);
  emit(OpKind::safe_softmax, {some, rows, scores}, {weights});
  hold({scores, infinity, masked, rows});
  const V kept = dropped(weights, dropout_);
  const V narrow = cast(kept, dtype(q));  // returned, and thrown away; made first
  const V y = cast(weighted(kept, for_all(values)), dtype(q));
  hold({wide_q, wide_k, wide_v, scaled_q, keys, values, kept, narrow, mask});
  return heads_last(y);
}

/// Of keys or of values, by a tensor of one index: a copy.
ir::ValueId Lowering::head_by_index(V from, const Shape& size) {
  const V which = make_int(OpKind::empty, {1}, DType::i64, {});
  const V head = out(size, dtype(from), grad(from));
  emit(OpKind::index, {from, which}, {head});
  return head;
}

/// FalconAttention._split_heads with "multi_query": one head of keys and one of values, by index.
std::array<ir::ValueId, 3> Lowering::one_pair_heads(V qkv) {
  const std::int64_t b = config_.run.batch, s = config_.run.seq, d = spec_.head_dim;
  frame_ = {qkv};
  const V queries = p_.reshape(slice_last(qkv, spec_.heads * d, 0), {b, spec_.heads, s, d}, true);
  const auto head = [&] { return p_.reshape(head_by_index(qkv, {b, s, d}), {b, 1, s, d}); };
  const V keys = head();
  return {queries, keys, head()};
}

/// The same with "new_decoder_architecture": of each group, its queries, a head of keys and one of
/// values, which are repeated.
std::array<ir::ValueId, 3> Lowering::repeated_pairs(V qkv) {
  const std::int64_t b = config_.run.batch, s = config_.run.seq, d = spec_.head_dim,
                     n = spec_.kv_heads, queries = spec_.heads / n;
  frame_ = {qkv};
  const V all = p_.on_storage_of(qkv, {b, s, n, (queries + 2) * d}, dtype(qkv), false);
  emit(OpKind::view, {qkv}, {all});
  const V of_group = slice_last(all, queries * d, 0);
  const auto for_each = [&](V head) {  // broadcast_to
    const V wide = p_.on_storage_of(head, {b, s, n, queries, d}, dtype(head), false);
    emit(OpKind::expand, {head}, {wide});
    return wide;
  };
  const Shape heads{b, s, n, d};
  const V key = head_by_index(all, heads), value = head_by_index(all, heads);
  const V wide_key = for_each(key), wide_value = for_each(value);
  const auto flattened = [&](V x) {
    const V copy = out(shape(x), dtype(x), grad(x));
    emit(OpKind::clone, {x}, {copy});
    const V y = p_.on_storage_of(copy, {b, spec_.heads, s, d}, dtype(x), false);
    p_.value(y).permuted = true;
    emit(OpKind::view, {copy}, {y});
    return y;
  };
  const V q = flattened(of_group), k = flattened(wide_key), v = flattened(wide_value);
  return {q, k, v};
}

}  // namespace ac_advisor::passes
