// transformers v5.23, DeepseekV3Attention.forward and DeepseekV2's: multi-head latent attention.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// expand_kv: keys, (B, heads, S, plain + rotated), are written into a new tensor part by part;
/// values, (B, heads, S, value), are a view of what the latent vector was projected to.
std::pair<ir::ValueId, ir::ValueId> Lowering::expanded_keys(const Block& b, V latent, V rotated) {
  const model::LatentAttention& sizes = *spec_.latent;
  const std::int64_t batch = config_.run.batch, heads = spec_.heads, s = config_.run.seq;
  leaf_ = Module::kv_b_proj;
  const V flat = linear(latent, b.kv_b);
  const V both = by_head(flat, heads, sizes.plain_dim + sizes.value_dim);
  leaf_ = Module::attention;
  const auto [plain, values] = split_at(both, sizes.plain_dim);
  const V wide =
      p_.on_storage_of(rotated, {batch, 1, heads, s, sizes.rotated_dim}, dtype(rotated), false);
  emit(OpKind::expand, {rotated}, {wide});
  const V shared = p_.reshape(wide, {batch, heads, s, sizes.rotated_dim});
  const V keys = out({batch, heads, s, spec_.head_dim}, dtype(both), false);
  emit(OpKind::empty, {}, {keys});
  const auto written = [&](V target, V part, std::int64_t start) {
    const V y = p_.on_storage_of(target, shape(target), dtype(target), true);
    p_.value(y).requires_grad = grad(target) || grad(part);
    emit(OpKind::copy_part, {target, part}, {y}, ir::Slice{static_cast<std::int32_t>(start)});
    return y;
  };
  const V all = written(written(keys, plain, 0), shared, sizes.plain_dim);
  hold({both, plain});
  return {all, values};
}

/// q, k and v: (B, heads, S, plain + rotated) twice, (B, heads, S, value).
std::array<ir::ValueId, 3> Lowering::latent_heads(const Block& b, V x, const Rotary& rotary) {
  const model::LatentAttention& sizes = *spec_.latent;
  const std::int64_t batch = config_.run.batch, s = config_.run.seq;
  V flat{};
  if (sizes.q_rank > 0) {
    leaf_ = Module::q_a_proj;
    const V narrow = rms_norm(linear(x, b.q_a), b.q_a_norm, Module::q_a_norm);
    leaf_ = Module::q_b_proj;
    flat = linear(narrow, b.q_b);
  } else {
    leaf_ = Module::q_proj;
    flat = linear(x, b.q);
  }
  const V queries = by_head(flat, spec_.heads, spec_.head_dim);
  const auto [q_plain, q_part] = split_at(queries, sizes.plain_dim);
  leaf_ = Module::kv_a_proj;
  const V compressed = linear(x, b.kv_a);
  const auto [narrow, k_flat] = split_at(compressed, sizes.kv_rank);
  const V latent =
      p_.reshape(rms_norm(narrow, b.kv_a_norm, Module::kv_a_norm), {batch, 1, s, sizes.kv_rank});
  const V k_part = p_.reshape(k_flat, {batch, 1, s, sizes.rotated_dim});
  const auto [q_turned, k_turned] = rotate(q_part, k_part, rotary);
  const V q = out(shape(queries), dtype(queries), grad(queries));
  emit(OpKind::cat, {q_plain, q_turned}, {q});
  const auto [k, v] = expanded_keys(b, latent, k_turned);
  frame_ = {queries, q_turned, compressed, latent, k_turned};
  return {q, k, v};
}

}  // namespace ac_advisor::passes
