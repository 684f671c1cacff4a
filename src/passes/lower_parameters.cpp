#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::Role;
using ir::Shape;

ir::ValueId Lowering::parameter(const Shape& shape, Module leaf) {
  const V v = p_.make(shape, config_.precision.compute_dtype, Role::parameter, at(leaf), true);
  s_.parameters.push_back({v, at(leaf), 0, ir::no_id});
  return v;
}

Lowering::Linear Lowering::linear_parameters(std::int64_t in, std::int64_t out, bool bias,
                                             Module leaf) {
  Linear l;
  l.weight = parameter({out, in}, leaf);
  if (bias) l.bias = parameter({out}, leaf);
  return l;
}

void Lowering::declare_block(std::int16_t index) {
  block_ = index;
  const std::int64_t h = spec_.hidden, q = spec_.heads * spec_.head_dim,
                     kv = spec_.kv_heads * spec_.head_dim;
  Block b;
  if (spec_.fused_qkv) {
    b.o = linear_parameters(q, h, spec_.output_bias, Module::o_proj);
    b.qkv = linear_parameters(h, q + 2 * kv, spec_.qkv_bias, Module::qkv_proj);
  } else {
    b.q = linear_parameters(h, q, spec_.qkv_bias, Module::q_proj);
    b.k = linear_parameters(h, kv, spec_.qkv_bias, Module::k_proj);
    b.v = linear_parameters(h, kv, spec_.qkv_bias, Module::v_proj);
    b.o = linear_parameters(q, h, spec_.output_bias, Module::o_proj);
  }
  if (spec_.qk_norm) {
    b.q_norm = parameter({spec_.head_dim}, Module::q_norm);
    b.k_norm = parameter({spec_.head_dim}, Module::k_norm);
  }
  const auto i = static_cast<std::size_t>(index);
  if (spec_.moe && !spec_.sparse_block.empty() && spec_.sparse_block[i]) {
    const auto& moe = *spec_.moe;
    b.router = parameter({moe.experts, h}, Module::router);
    b.experts_gate_up = parameter({moe.experts, 2 * moe.intermediate, h}, Module::experts);
    b.experts_down = parameter({moe.experts, h, moe.intermediate}, Module::experts);
  } else if (spec_.fused_gate_up) {
    b.gate_up = linear_parameters(h, 2 * spec_.intermediate, spec_.mlp_bias, Module::gate_up_proj);
    b.down = linear_parameters(spec_.intermediate, h, spec_.mlp_bias, Module::down_proj);
  } else {
    b.gate = linear_parameters(h, spec_.intermediate, spec_.mlp_bias, Module::gate_proj);
    b.up = linear_parameters(h, spec_.intermediate, spec_.mlp_bias, Module::up_proj);
    b.down = linear_parameters(spec_.intermediate, h, spec_.mlp_bias, Module::down_proj);
  }
  b.norm1 = parameter({h}, Module::norm1);
  if (spec_.sandwich_norms) b.post_attention_norm = parameter({h}, Module::post_attention_norm);
  b.norm2 = parameter({h}, Module::norm2);
  if (spec_.sandwich_norms) b.post_mlp_norm = parameter({h}, Module::post_mlp_norm);
  blocks_.push_back(b);
  block_ = -1;
}

void Lowering::declare() {
  const Shape tokens{config_.run.batch, config_.run.seq};
  ids_ = p_.make(tokens, DType::i64, Role::input, at(Module::root));
  labels_ = p_.make(tokens, DType::i64, Role::input, at(Module::root));
  s_.inputs = {ids_, labels_};
  embed_ = parameter({spec_.vocab, spec_.hidden}, Module::embed);
  for (std::int16_t i = 0; i < spec_.layers; ++i) declare_block(i);
  final_norm_ = parameter({spec_.hidden}, Module::final_norm);
  lm_head_ =
      spec_.tied_embeddings ? embed_ : parameter({spec_.vocab, spec_.hidden}, Module::lm_head);
  // Rotary frequencies and their copy (`original_inv_freq`), one pair a kind of layer.
  for (std::int64_t i = 0; i < spec_.rotary_tables; ++i) {
    inv_freq_.push_back(
        p_.make({spec_.rotary_dim / 2}, DType::f32, Role::buffer, at(Module::rotary)));
    s_.buffers.push_back(inv_freq_.back());
    s_.buffers.push_back(
        p_.make({spec_.rotary_dim / 2}, DType::f32, Role::buffer, at(Module::rotary)));
  }
  if (spec_.scaled_embedding) {
    embed_scale_ = p_.make({}, config_.precision.compute_dtype, Role::buffer, at(Module::embed));
    s_.buffers.push_back(embed_scale_);
  }
  s_.blocks = static_cast<std::int32_t>(spec_.layers);
}

}  // namespace ac_advisor::passes
