// litgpt v0.5.13: litgpt/model.py (GPT, Block, CausalSelfAttention, RMSNorm, the MLPs, apply_rope)
// and Lightning Fabric v2.6.1's conversion of what the model puts out.
#include <array>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// RMSNorm.forward, in fp32 with the weight; torch.nn.LayerNorm.
ir::ValueId Lowering::litgpt_norm(V x, V weight, V bias, Module leaf) {
  if (spec_.norm == model::Norm::layer) return layer_norm(x, weight, bias, leaf);
  leaf_ = leaf;
  const V h = cast(x, DType::f32);
  const V square = binary(OpKind::mul, h, h);
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V mean = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {square}, {mean});
  const V shifted = unary(OpKind::add_scalar, mean, ir::Number{spec_.rms_norm_eps});
  const V normed = binary(OpKind::mul, h, unary(OpKind::rsqrt, shifted));
  if (spec_.unit_offset_norm) weight = unary(OpKind::add_scalar, weight, ir::Number{1.0});
  const V y = cast(binary(OpKind::mul, normed, cast(weight, DType::f32)), dtype(x));
  hold({h, mean, normed, weight});  // the frame's `x`, `norm_x`, `x_normed`, `weight`
  return y;
}

/// apply_rope of the part that is rotated, joined with the rest, even where that is empty. Tables
/// are in fp32, and so is what they multiply.
ir::ValueId Lowering::litgpt_rotated(V x, const Rotary& rotary, std::vector<V>& frame) {
  leaf_ = Module::rope;
  const std::int64_t d = spec_.head_dim, part = spec_.rotary_dim, half = part / 2;
  const V turned = part == d ? x : slice_last(x, part, 0);
  const V x1 = slice_last(turned, half, 0);
  const V x2 = slice_last(turned, half, static_cast<std::int32_t>(half));
  const V rotated = out(shape(turned), dtype(x), grad(x));
  emit(OpKind::cat, {unary(OpKind::neg, x2), x1}, {rotated});
  const V direct = binary(OpKind::mul, turned, rotary.cos);
  const V sum = binary(OpKind::add, direct, binary(OpKind::mul, rotated, rotary.sin));
  const V roped = cast(sum, dtype(x));
  hold({rotated, sum});
  frame.push_back(roped);
  return roped;
}

ir::ValueId Lowering::litgpt_attention(const Block& b, V x, const Rotary& rotary) {
  const std::int64_t d = spec_.head_dim, n = spec_.heads, groups = spec_.kv_heads;
  leaf_ = Module::qkv_proj;
  const V qkv = litgpt_qkv(x, b.qkv);
  leaf_ = Module::attention;
  const auto part_of = [&](std::int64_t heads) {
    return p_.on_storage_of(qkv, {config_.run.batch, config_.run.seq, heads * d}, dtype(qkv),
                            false);
  };
  const V q_flat = part_of(n), k_flat = part_of(groups), v_flat = part_of(groups);
  emit(OpKind::split, {qkv}, {q_flat, k_flat, v_flat});
  V q = by_head(q_flat, n, d), k = by_head(k_flat, groups, d), v = by_head(v_flat, groups, d);
  std::vector<V> frame{qkv};
  const V q_roped = litgpt_rotated(q, rotary, frame), k_roped = litgpt_rotated(k, rotary, frame);
  const auto joined = [&](V roped, V whole) {
    const V rest =
        slice_last(whole, d - spec_.rotary_dim, static_cast<std::int32_t>(spec_.rotary_dim));
    const V y = out(shape(whole), dtype(whole), grad(whole));
    emit(OpKind::cat, {roped, rest}, {y});
    return y;
  };
  q = joined(q_roped, q), k = joined(k_roped, k);
  leaf_ = Module::attention;
  k = repeated(k, 1, n / groups), v = repeated(v, 1, n / groups);
  leaf_ = Module::attention_core;
  const V y = heads_last(attended(q, k, v, ir::no_id, {.scale = spec_.score_scale()}));
  const V merged = p_.reshape(y, {config_.run.batch, config_.run.seq, n * d});
  leaf_ = Module::o_proj;
  const V output = litgpt_linear(merged, b.o);
  frame.insert(frame.end(), {q, k, v, y});
  hold_all(frame);
  return output;
}

ir::ValueId Lowering::litgpt_mlp(const Block& b, V x) {
  if (spec_.plain_mlp) {
    leaf_ = Module::up_proj;
    const V wide = litgpt_linear(x, b.up);
    leaf_ = Module::activation;
    const V activated = unary(OpKind::gelu_tanh, wide);  // F.gelu, whichever approximation
    leaf_ = Module::down_proj;
    const V y = litgpt_linear(activated, b.down);
    hold({activated});
    return y;
  }
  leaf_ = Module::gate_proj;
  const V gate = litgpt_linear(x, b.gate);
  leaf_ = Module::up_proj;
  const V up = litgpt_linear(x, b.up);
  leaf_ = Module::activation;
  const V product = binary(OpKind::mul, activate(gate, nullptr), up);
  leaf_ = Module::down_proj;
  const V y = litgpt_linear(product, b.down);
  hold({gate, up, product});
  return y;
}

ir::ValueId Lowering::litgpt_block(const Block& b, std::int16_t index, V x, const Rotary& rotary) {
  block_ = index;
  const V first = litgpt_norm(x, b.norm1, b.norm1_bias, Module::norm1);
  const V attended = litgpt_attention(b, first, rotary);
  V normed = first, middle{};
  const auto second_norm = [&](V of) {
    normed = litgpt_norm(of, b.norm2, b.norm2_bias, Module::norm2);
    hold({first});  // `x_normed`, until it is bound anew
  };
  if (spec_.side_by_side && !spec_.shared_norm) second_norm(x);
  leaf_ = Module::block;
  middle = binary(OpKind::add, attended, x);
  if (!spec_.side_by_side) second_norm(middle);
  const V fed = litgpt_mlp(b, normed);
  leaf_ = Module::block;
  const V y = binary(OpKind::add, fed, middle);
  hold({x, middle, normed, attended});
  block_ = -1;
  return y;
}

/// GPT.forward; of finetune/lora.py with the LM head in chunks of 128 tokens.
void Lowering::forward_litgpt() {
  phase_ = ir::Phase::forward;
  labels_ = m_.labels;
  leaf_ = Module::embed;
  V x = out({config_.run.batch, config_.run.seq, spec_.hidden}, dtype_, grad(m_.embed));
  emit(OpKind::embedding, {m_.embed, m_.ids}, {x});
  if (m_.embed_norm != ir::no_id)
    x = native_layer_norm(x, m_.embed_norm, m_.embed_norm_bias, spec_.rms_norm_eps);
  if (spec_.scaled_embedding) x = unary(OpKind::mul_scalar, x);
  const Rotary rotary{m_.inv_freq[0], m_.inv_freq[1]};
  for (std::size_t i = 0; i < m_.blocks.size(); ++i) {
    const V before = x;
    x = litgpt_block(m_.blocks[i], static_cast<std::int16_t>(i), x, rotary);
    hold({before});
  }
  hidden_ = litgpt_norm(x, m_.final_norm, m_.final_norm_bias, Module::final_norm);
  hold({x});
  s_.hidden = hidden_;
  const std::vector<V> narrow = litgpt_logits();
  leaf_ = Module::lm_head;
  std::vector<V> logits;
  for (V chunk : narrow) logits.push_back(cast(chunk, DType::f32));
  hold_all(narrow);
  carry_outputs(logits);
  phase_ = ir::Phase::loss;
  leaf_ = Module::loss;
  litgpt_loss(logits);
}

/// What the loop had of the micro-batch before goes when the name is bound to what this one made;
/// in a step's first that is what the step before had made.
void Lowering::carry_outputs(const std::vector<V>& made) {
  if (s_.micro_begin.size() > 1) {
    hold_all(s_.outputs);
  } else {
    for (V output : made) s_.outputs_before.push_back(out(shape(output), dtype(output), false));
    hold_all(s_.outputs_before);
  }
  s_.outputs = made;
}

}  // namespace ac_advisor::passes
