// transformers v5.23: rotations of q and k that are not x cos + rotate_half(x) sin.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// torch.split along the last dimension: two views.
std::pair<ir::ValueId, ir::ValueId> Lowering::split_at(V x, std::int64_t first) {
  const auto part = [&](std::int64_t size) {
    Shape s = shape(x);
    s.set(s.rank() - 1, size);
    return p_.on_storage_of(x, s, dtype(x), false);
  };
  const V a = part(first), b = part(shape(x).back() - first);
  emit(OpKind::split, {x}, {a, b});
  return {a, b};
}

/// GptOss' _apply_rotary_emb: both halves of a head, (B, heads, S, D / 2), and their join.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_halves_apart(V q, V k, const Rotary& rotary) {
  const auto rotated = [&](V x) {
    const auto [a, b] = chunk(x);
    return turned(a, b, rotary, x);
  };
  const V q_turned = rotated(q);
  const std::pair<V, V> both{q_turned, rotated(k)};
  hold({q, k});
  return both;
}

/// (a cos - b sin, b cos + a sin), joined into a tensor like `like`.
ir::ValueId Lowering::turned(V a, V b, const Rotary& rotary, V like) {
  // One after the other: arguments of one call are evaluated in no order.
  const auto sum = [&](V with_cos, V with_sin, double sign) {
    const V left = binary(OpKind::mul, with_cos, rotary.cos);
    const V right = binary(OpKind::mul, with_sin, rotary.sin);
    return binary(OpKind::add, left, right, ir::Add{sign});
  };
  const V first = sum(a, b, -1.0), second = sum(b, a, 1.0);
  const V y = out(shape(like), dtype(like), grad(like));
  emit(OpKind::cat, {first, second}, {y});
  return y;
}

/// DeepseekV3's apply_rotary_pos_emb_interleave: even and odd elements, slices with a step of two.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_pairs_apart(V q, V k, const Rotary& rotary) {
  const std::int64_t half = shape(rotary.cos).back() / 2;
  const V cos = p_.narrow(rotary.cos, 2, 0, half), sin = p_.narrow(rotary.sin, 2, 0, half);
  const std::int64_t width = shape(q).back() / 2;
  const V q1 = slice_last(q, width, 0), q2 = slice_last(q, width, 1);
  const V k1 = slice_last(k, width, 0), k2 = slice_last(k, width, 1);
  const Rotary halves{cos, sin};
  const V q_turned = turned(q1, q2, halves, q);
  const std::pair<V, V> both{q_turned, turned(k1, k2, halves, k)};
  hold({q, k});
  return both;
}

/// DeepseekV2's apply_rotary_emb, and Llama4's and TorchTitan's, which cast both back at their end:
/// in fp32, each pair times a complex number.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_complex(V q, V k, const Rotary& rotary) {
  const V q_wide = cast(q, DType::f32), k_wide = cast(k, DType::f32);
  if (spec_.rotation == model::Rotation::complex_together || forms_.keeps_table()) {
    const V q_long = binary(OpKind::complex_mul, q_wide, rotary.cos);
    const V k_long = binary(OpKind::complex_mul, k_wide, rotary.cos);
    const V q_back = cast(q_long, dtype(q));
    const std::pair<V, V> both{q_back, cast(k_long, dtype(k))};
    hold({q, k, q_wide, k_wide, q_long, k_long});
    return both;
  }
  const auto turned = [&](V wide, V like) {
    return cast(binary(OpKind::complex_mul, wide, rotary.cos), dtype(like));
  };
  const V q_turned = turned(q_wide, q);
  const std::pair<V, V> both{q_turned, turned(k_wide, k)};
  hold({q, k, q_wide, k_wide});
  return both;
}

/// GPTJAttention.forward: each position's row of a table of its own, halved into sines and cosines,
/// which each of q and k interleaves; q and k are (B, S, heads, D) meanwhile.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_by_table(V angles, V q, V k) {
  const std::int64_t b = config_.run.batch, s = config_.run.seq, d = spec_.head_dim,
                     part = spec_.rotary_dim;
  const auto copied = [&](V x, const Shape& size) {  // repeat(…)
    const V y = out(size, dtype(x), false);
    emit(OpKind::clone, {x}, {y});
    return y;
  };
  const V table = copied(angles, {1, spec_.max_positions, part});
  const V positions = copied(positions_, {1, s, part});
  const V rows = out({1, s, part}, DType::f32, false);
  emit(OpKind::gather, {table, positions}, {rows});
  const V both = cast(rows, dtype_);
  const auto [sines, cosines] = split_at(both, part / 2);
  const V sin_half = sines, cos_half = cosines;
  std::vector<ir::OpId> unused;
  const auto turned_part = [&](V x) {
    const V sin = copied(sin_half, {1, s, part});
    const Rotary own{copied(cos_half, {1, s, part}), sin};
    const V y = rotate_part(x, own, unused);
    hold({x, own.cos, own.sin});
    return y;
  };
  const auto rotated = [&](V x) { return slice_last(x, part, 0); };
  const auto rest = [&](V x) { return slice_last(x, d - part, static_cast<std::int32_t>(part)); };
  const V k_part = rotated(k), k_rest = rest(k), q_part = rotated(q), q_rest = rest(q);
  const V k_turned = turned_part(k_part), q_turned = turned_part(q_part);
  const auto joined = [&](V turned, V tail, V like) {
    const V y = out(shape(like), dtype(like), grad(like));
    emit(OpKind::cat, {turned, tail}, {y});
    return p_.reshape(y, {b, shape(like)[2], s, d}, true);
  };
  const V keys = joined(k_turned, k_rest, k), queries = joined(q_turned, q_rest, q);
  frame_ = {table, positions, both, k, q, k_turned, q_turned};
  return {queries, keys};
}

/// DeepseekV2RotaryEmbedding.forward: complex numbers of length one, (1, S, D) as pairs of fp32.
Lowering::Rotary Lowering::complex_table(V inv_freq) {
  leaf_ = Module::rotary;
  const std::int64_t s = config_.run.seq, d = spec_.rotary_dim;
  const V as_float = cast(positions_, DType::f32);
  const V freqs = out({1, s, d / 2}, DType::f32, false);
  emit(OpKind::mul, {as_float, inv_freq}, {freqs});
  const V lengths = make_int(OpKind::fill, {1, s, d / 2}, DType::f32, {}, ir::Number{1.0});
  const V turns = make_int(OpKind::polar, {1, s, d}, DType::f32, {lengths, freqs});
  const V scaled = unary(OpKind::mul_scalar, turns, ir::Number{1.0});
  hold({freqs});
  return {scaled, scaled};
}

}  // namespace ac_advisor::passes
