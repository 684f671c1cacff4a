// torchtune v0.6.1, models/gemma2: attention whose scores are written out and capped, with a mask
// that each block makes for itself; a cap of hidden states where transformers caps logits.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Comparison;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// expand and reshape of keys or values by token, (B, S, heads, D) in memory: a copy.
ir::ValueId Lowering::repeated_by_token(V x) {
  const Shape s = shape(x);
  if (s[1] == heads()) return x;
  const V wide = p_.on_storage_of(x, {s[0], s[2], s[1], heads() / s[1], s[3]}, dtype(x), false);
  emit(OpKind::expand, {x}, {wide});
  const V copy = out(shape(wide), dtype(x), grad(x));
  emit(OpKind::clone, {wide}, {copy});
  return by_head(copy, heads(), s[3]);
}

/// Gemma2Attention.forward: of a lower triangle, which the host makes, zeros and a low number in
/// fp32; of a window, which is applied whatever the sequence's length, three more.
ir::ValueId Lowering::mask_of_block(bool windowed) {
  const std::int64_t s = config_.run.seq;
  const Shape square{s, s};
  const auto number = [&] { return make_int(OpKind::fill, {}, DType::f32, {}); };
  const V ones = make_int(OpKind::empty, square, DType::u8, {});  // from the host
  const V seen = make_int(OpKind::triangle, square, DType::u8, {ones});
  hold({ones});
  const V unseen = make_int(OpKind::compare, square, DType::u8, {seen});
  const V low = number(), zero = number();
  const V mask = make_int(OpKind::where, square, DType::f32, {unseen, low, zero});
  hold({seen, unseen, low, zero});
  if (!windowed) return mask;
  const V all = make_int(OpKind::fill, square, DType::f32, {});
  const V upper = make_int(OpKind::triangle, square, DType::f32, {all});
  const V lower = make_int(OpKind::triangle, square, DType::f32, {all});
  const V within = make_int(OpKind::mul, square, DType::f32, {upper, lower});
  hold({upper, lower});
  const V inside =
      make_int(OpKind::compare, square, DType::u8, {within}, ir::Compare{1.0, Comparison::equal});
  const V least = number();
  const V sliding = make_int(OpKind::where, square, DType::f32, {inside, mask, least});
  hold({inside, least, mask});
  frame_.insert(frame_.end(), {all, within});
  return sliding;
}

/// The rest of it: q is scaled in place, where it is a view of what was rotated.
ir::ValueId Lowering::capped_core(V q, V k, V v, bool windowed) {
  leaf_ = Module::attention_core;
  const Shape s = shape(q);
  const V scaled = p_.on_storage_of(q, s, dtype(q), true);
  p_.value(scaled).permuted = p_.value(q).permuted;
  p_.value(scaled).requires_grad = grad(q);
  emit(OpKind::mul_of_view, {q}, {scaled}, ir::Number{spec_.score_scale()});
  const V query = folded(scaled), key = folded(k);
  const V product = out({s[0], s[1], s[2], s[2]}, dtype(q), grad(q) || grad(k));
  emit(OpKind::bmm, {query, key}, {product}, ir::Product{static_cast<std::int32_t>(s[3])});
  const V scores = unfolded(product);
  const V mask = mask_of_block(windowed);
  const V capped = soft_cap(scores, *spec_.attention_softcap);
  const V masked = binary(OpKind::add, capped, mask);
  hold({capped});
  const V weights = cast(unary(OpKind::softmax, masked), dtype(q));
  hold({masked});  // `output`, until it is bound anew
  const V y = heads_last(weighted(weights, folded(v)));
  hold({weights});
  frame_.push_back(mask);
  return y;
}

/// TanhSoftCapping of the final norm's result.
ir::ValueId Lowering::capped_hidden(V x) {
  leaf_ = Module::final_norm;
  const V y = soft_cap(x, *spec_.attention_softcap);
  hold({x});
  return y;
}

}  // namespace ac_advisor::passes
