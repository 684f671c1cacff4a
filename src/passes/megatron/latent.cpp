// Megatron-core's MLASelfAttention (core_v0.16, transformer/multi_latent_attention.py) of
// Transformer Engine's layers: queries, and keys with values, from a narrow vector a token each,
// whose norms are one function with the layers after them.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// The layers to the narrow vectors are whole on every rank of a layer (parallel_mode duplicated).
void MegatronLayers::declare_latent(Block& b) {
  const model::LatentAttention& sizes = *spec_.latent;
  const std::int64_t h = spec_.hidden, n = spec_.heads;
  b.o = linear_parameters(n * sizes.value_dim, h, spec_.output_bias, Module::o_proj, Split::rows);
  if (sizes.q_rank > 0) {
    b.q_a = linear_parameters(h, sizes.q_rank, false, Module::q_a_proj, Split::none);
    declare_norm(b.q_norm, b.q_norm_bias, sizes.q_rank, Module::q_a_norm);
    b.q_b = linear_parameters(sizes.q_rank, n * spec_.head_dim, false, Module::q_b_proj,
                              Split::columns);
  } else {
    b.q = linear_parameters(h, n * spec_.head_dim, false, Module::q_proj, Split::columns);
  }
  b.kv_a = linear_parameters(h, sizes.kv_rank + sizes.rotated_dim, false, Module::kv_a_proj,
                             Split::none);
  declare_norm(b.k_norm, b.k_norm_bias, sizes.kv_rank, Module::kv_a_norm);
  b.kv_b = linear_parameters(sizes.kv_rank, n * (sizes.plain_dim + sizes.value_dim), false,
                             Module::kv_b_proj, Split::columns);
}

/// Each layer has a table of angles of its own, which RotaryEmbedding.forward keeps of 32 layers
/// at most; YaRN's three of frequencies, and cosines and sines of its first positions that nothing
/// reads without fused rotation.
void MegatronLayers::declare_latent_angles() {
  constexpr std::int64_t most_kept = 32;
  const std::int64_t width = spec_.rotary_dim;
  const bool yarn = spec_.rope_scaling && spec_.rope_scaling->type == "yarn";
  const auto buffer = [&](const Shape& size, DType type) {
    const V v = p_.make(size, type, ir::Role::buffer, at(Module::rotary));
    s_.buffers.push_back(v);
    return v;
  };
  std::int64_t layers = 0;
  for (const StageBlocks& stage : s_.stages) layers += stage.end - stage.first;
  for (std::int64_t i = 0; i < layers; ++i) {
    for (int kind = 0; kind < (yarn ? 3 : 1); ++kind) buffer({width / 2}, DType::f32);
    const auto positions =
        yarn ? static_cast<std::int64_t>(spec_.rope_scaling->original_positions) : 0;
    if (yarn) buffer({positions, width}, dtype_), buffer({positions, width}, dtype_);
    if (i < most_kept) m_.inv_freq = {buffer({seq_, width}, DType::f32)};
  }
}

/// Columns of `x` as views, which its gradient is joined of.
std::pair<ir::ValueId, ir::ValueId> MegatronLayers::split_at(V x, std::int64_t first) {
  const Shape whole = shape(x);
  const auto view = [&](std::int64_t width) {
    const V y = p_.on_storage_of(x, with(whole, whole.rank() - 1, width), dtype(x), false);
    p_.value(y).requires_grad = true;
    return y;
  };
  const V a = view(first), b = view(whole.back() - first);
  emit(OpKind::split, {x}, {a, b});
  return {a, b};
}

/// gather_from_sequence_parallel_region, of a tensor that is copied to be in one piece.
ir::ValueId MegatronLayers::gathered(V x) {
  if (!sequence_) return x;
  const Shape own = shape(x), whole = with(own, 0, own[0] * tp_);
  const V piece = plain(own, dtype(x)), y = plain(whole, dtype(x));
  emit(OpKind::clone, {x}, {piece});
  emit(OpKind::tp_all_gather, {piece}, {y}, ir::TpGather{ir::Joined::tokens, ranks()});
  CompiledGraph g;
  g.made = {{own, dtype(x), -1}};
  g.launches = {{OpKind::tp_reduce_scatter, ir::TpScatter{ranks()}, leaf_, {1}, {2}}};
  g.results = {2};
  return node(OpKind::autograd_function, {x}, y, std::move(g));
}

/// get_query_key_value_tensors and qkv_up_proj_and_rope_apply.
MegatronLayers::Heads MegatronLayers::latent_heads(const Block& b, V x, RecomputedPart& up,
                                                   std::vector<V>& frame) {
  const model::LatentAttention& sizes = *spec_.latent;
  const std::int64_t n = part(spec_.heads);
  const auto by_head = [&](V flat, std::int64_t width) {
    return p_.reshape(flat, {seq_, batch_, n, width});
  };
  V narrow = x;
  if (sizes.q_rank > 0) narrow = linear(x, b.q_a, Split::none, Module::q_a_proj);
  const V compressed = linear(x, b.kv_a, Split::none, Module::kv_a_proj);
  leaf_ = Module::attention;
  const auto [view, k_flat] = split_at(compressed, sizes.kv_rank);
  const V k_part = gathered(k_flat);
  const ir::OpId begin = next_op();
  const V q_flat = sizes.q_rank > 0
                       ? normed_linear(narrow, {b.q_norm, b.q_norm_bias, Module::q_a_norm}, b.q_b,
                                       ir::no_id, Module::q_b_proj)
                       : linear(x, b.q, Split::columns, Module::q_proj);
  const V latent = bf16(shape(view));  // prepare_forward(allow_non_contiguous=False)
  emit(OpKind::clone, {view}, {latent});
  const V kv_flat = normed_linear(latent, {b.k_norm, b.k_norm_bias, Module::kv_a_norm}, b.kv_b,
                                  ir::no_id, Module::kv_b_proj);
  leaf_ = Module::attention;
  const auto [q_plain, q_part] = split_at(by_head(q_flat, spec_.head_dim), sizes.plain_dim);
  const auto [k_plain, values] =
      split_at(by_head(kv_flat, sizes.plain_dim + sizes.value_dim), sizes.plain_dim);
  const V q_turned = rotated_by_parts(q_part);
  const V k_turned = rotated_by_parts(p_.reshape(k_part, {seq_, batch_, 1, sizes.rotated_dim}));
  leaf_ = Module::attention;
  const Shape heads{seq_, batch_, n, spec_.head_dim};
  const V q = bf16(heads), k = bf16(heads), v = bf16(shape(values));
  emit(OpKind::cat, {q_plain, q_turned}, {q});
  const V shared = p_.on_storage_of(k_turned, {seq_, batch_, n, sizes.rotated_dim}, dtype_, false);
  p_.value(shared).requires_grad = true;
  emit(OpKind::expand, {k_turned}, {shared});
  emit(OpKind::cat, {k_plain, shared}, {k});
  emit(OpKind::clone, {values}, {v});
  hold({q_flat, kv_flat, q_turned, k_turned});
  up = written(begin, {q, k, v});
  frame = {compressed};
  if (!recomputes(LayerPart::mla_up_proj)) frame.insert(frame.end(), {q, k, v});
  return {q, k, v, true, true, true};
}

ir::ValueId MegatronLayers::latent_attention(const Block& b, V x) {
  ir::OpId begin = next_op();
  const V normed = norm(x, b.norm1, b.norm1_bias, Module::norm1);
  RecomputedPart of_norm = written(begin, {normed}), up;
  std::vector<V> frame;
  const Heads heads = latent_heads(b, normed, up, frame);
  begin = next_op();
  hold({mask_});
  const V context = config_.run.attention == Attention::eager
                        ? unfused_core(heads.q, heads.k, heads.v)
                        : fused_core(heads);
  checkpoint(LayerPart::core_attn, begin);
  let_go(LayerPart::mla_up_proj, std::move(up), context);
  const V y = linear(context, b.o, Split::rows, Module::o_proj);
  hold_all(frame);
  let_go(LayerPart::layernorm, std::move(of_norm), y);
  return y;
}

}  // namespace ac_advisor::passes
