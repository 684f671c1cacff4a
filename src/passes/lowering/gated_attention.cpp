// transformers v5.23: Qwen3NextAttention.forward, whose output is multiplied by a sigmoid of a gate
// that the queries' projection makes beside them.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;

/// q, k and v, rotated: (B, heads, S, D) each; and the gate, (B, S, heads x D).
std::array<ir::ValueId, 3> Lowering::gated_heads(const Block& b, V x, const Rotary& rotary,
                                                 V& gate) {
  const std::int64_t batch = config_.run.batch, tokens = config_.run.seq, d = spec_.head_dim,
                     n = heads();
  leaf_ = Module::q_proj;
  const V both = p_.reshape(linear(x, b.q), {batch, tokens, n, 2 * d});
  const V queries = p_.on_storage_of(both, {batch, n, tokens, d}, dtype(both), false);
  const V gates = p_.on_storage_of(both, {batch, tokens, n, d}, dtype(both), false);
  p_.value(queries).permuted = true;
  emit(OpKind::split, {both}, {queries, gates});
  gate = p_.reshape(unary(OpKind::clone, gates), {batch, tokens, n * d});
  const V q = gemma_rms_norm(queries, b.q_norm, Module::q_norm);
  leaf_ = Module::k_proj;
  const V keys = by_head(linear(x, b.k), kv_heads(), d);
  const V k = gemma_rms_norm(keys, b.k_norm, Module::k_norm);
  leaf_ = Module::v_proj;
  const V v = by_head(linear(x, b.v), kv_heads(), d);
  const auto [q_turned, k_turned] = rotate(q, k, rotary);
  return {q_turned, k_turned, v};
}

ir::ValueId Lowering::gated_output(V merged, V gate) {
  leaf_ = Module::attention;
  const V y = binary(OpKind::mul, merged, unary(OpKind::sigmoid, gate));
  frame_.push_back(gate);
  return y;
}

}  // namespace ac_advisor::passes
