// What transformers' modules hold: modeling_<family>.py, release 5.23.0.
#include <fmt/format.h>

#include <initializer_list>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/error.hpp"
#include "count_parameters.hpp"

namespace ac_advisor::model {
namespace {

/// A sum of tensors' element counts that notices overflow.
class ElementSum {
 public:
  template <typename Shape = std::initializer_list<std::int64_t>>
  void add(const Shape& shape, std::int64_t times = 1) {
    std::int64_t elements = times;
    for (std::int64_t size : shape) overflow_ |= __builtin_mul_overflow(elements, size, &elements);
    overflow_ |= __builtin_add_overflow(total_, elements, &total_);
  }
  /// `times` whole sums, a block's for instance.
  void add(const ElementSum& sum, std::int64_t times) {
    overflow_ |= sum.overflow_;
    add({sum.total_}, times);
  }
  [[nodiscard]] std::optional<std::int64_t> total() const {
    if (overflow_ || total_ > max_parameters) return std::nullopt;
    return total_;
  }

 private:
  std::int64_t total_ = 0;
  bool overflow_ = false;
};

ElementSum latent_attention(const ModelSpec& spec, const LatentAttention& latent) {
  ElementSum sum;
  if (latent.q_rank > 0) {
    sum.add({spec.hidden + 1, latent.q_rank});  // and a norm of the queries' vector
    sum.add({latent.q_rank, spec.heads, spec.head_dim});
    if (spec.qkv_bias) sum.add({latent.q_rank});
  } else {
    sum.add({spec.hidden, spec.heads, spec.head_dim});
  }
  sum.add({spec.hidden, latent.kv_rank + latent.rotated_dim});
  if (spec.qkv_bias) sum.add({latent.kv_rank + latent.rotated_dim});
  sum.add({latent.kv_rank});  // its norm
  sum.add({latent.kv_rank, spec.heads, latent.plain_dim + latent.value_dim});
  sum.add({spec.heads, latent.value_dim, spec.hidden});
  if (spec.output_bias) sum.add({spec.hidden});
  return sum;
}

ElementSum attention(const ModelSpec& spec) {
  if (spec.latent) return latent_attention(spec, *spec.latent);
  ElementSum sum;  // the same whether q, k and v are one projection or three
  sum.add({spec.hidden, spec.heads, spec.head_dim}, 2);  // q and the output
  if (spec.gated_attention) sum.add({spec.hidden, spec.heads, spec.head_dim});
  sum.add({spec.hidden, spec.kv_heads, spec.head_dim}, 2);  // k and v
  if (spec.qkv_bias) sum.add({spec.heads, spec.head_dim}, spec.gated_attention ? 2 : 1);
  if (spec.qkv_bias) sum.add({spec.kv_heads, spec.head_dim}, 2);
  if (spec.output_bias) sum.add({spec.hidden});
  if (spec.attention_sinks) sum.add({spec.heads});
  if (spec.qk_norm) sum.add({spec.head_dim}, spec.qk_norm_whole ? spec.heads + spec.kv_heads : 2);
  return sum;
}

ElementSum delta_net(const ModelSpec& spec, const DeltaNet& delta) {
  ElementSum sum;
  const std::int64_t heads = delta.value_heads, keys = delta.key_heads;
  sum.add({spec.hidden, keys, delta.key_dim}, 2);     // q and k
  sum.add({spec.hidden, heads, delta.value_dim}, 3);  // v, a gate, and the output
  sum.add({spec.hidden, heads}, 2);                   // the rates of writing and of decay
  sum.add({keys, delta.key_dim, delta.taps}, 2);      // the convolution's, of q, k and v
  sum.add({heads, delta.value_dim, delta.taps});
  sum.add({heads}, 2);  // dt_bias, A_log
  sum.add({delta.value_dim});
  return sum;
}

ElementSum dense_mlp(const ModelSpec& spec) {
  ElementSum sum;
  const std::int64_t inner = spec.plain_mlp ? 1 : 2;  // up, or gate and up
  sum.add({spec.hidden, spec.intermediate}, inner + 1);
  if (spec.mlp_bias) sum.add({spec.intermediate}, inner);
  if (spec.mlp_bias) sum.add({spec.hidden});
  return sum;
}

ElementSum expert_mlp(const ModelSpec& spec, const MoeSpec& moe) {
  ElementSum sum;
  sum.add({moe.experts, spec.hidden});                   // the router
  const std::int64_t matrices = spec.plain_mlp ? 2 : 3;  // up, or gate and up, and down
  sum.add({moe.experts, spec.hidden, moe.intermediate}, matrices);
  if (class_facts(spec.family).router == Router::corrected) sum.add({moe.experts});
  if (moe.biased) sum.add({moe.experts, 1 + 2 * moe.intermediate + spec.hidden});
  if (moe.shared_intermediate == 0) return sum;
  sum.add({spec.hidden, moe.shared_intermediate}, matrices);
  if (moe.shared_gate) sum.add({spec.hidden});
  return sum;
}

ElementSum tower(const ModelSpec& spec) {
  ElementSum sum;
  if (!spec.tower) return sum;
  for (const TensorGroup& group : spec.tower->groups) {
    for (const std::vector<std::int64_t>& shape : group.shapes) sum.add(shape, group.times);
    for (const EncoderLinear& linear : group.linears) {
      sum.add({linear.out, linear.in}, group.times);
      if (linear.bias) sum.add({linear.out}, group.times);
    }
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> count_parameters(const ModelSpec& spec) {
  std::int64_t sparse = 0;
  for (bool has_experts : spec.sparse_block) sparse += has_experts ? 1 : 0;
  ElementSum sum;
  sum.add({spec.vocab, spec.hidden}, spec.tied_embeddings ? 1 : 2);
  if (spec.head_bias) sum.add({spec.vocab});
  sum.add({spec.position_table, spec.hidden});
  if (spec.embedding_norm) sum.add({2, spec.hidden});
  const std::int64_t of_norm = spec.norms_have_bias() ? 2 : 1, norms = spec.shared_norm ? 1 : 2;
  sum.add({of_norm, spec.hidden});  // the final norm
  sum.add({spec.layers, spec.sandwich_norms ? 4 : norms, of_norm, spec.hidden});
  std::int64_t recurrent = 0;
  for (bool has_delta : spec.delta_block) recurrent += has_delta ? 1 : 0;
  sum.add(attention(spec), spec.layers - recurrent);
  if (spec.delta) sum.add(delta_net(spec, *spec.delta), recurrent);
  sum.add(dense_mlp(spec), spec.layers - sparse);
  if (spec.moe) sum.add(expert_mlp(spec, *spec.moe), sparse);
  sum.add(tower(spec), 1);
  return sum.total();
}

std::int64_t parameter_count(const ModelSpec& spec) {
  if (spec.graph) return graph::parameter_count(*spec.graph);
  if (const auto count = count_parameters(spec)) return *count;
  throw UserError(
      fmt::format("{}: more than {} parameters; check its sizes", spec.name, max_parameters));
}

std::int64_t tower_parameter_count(const ModelSpec& spec) {
  return tower(spec).total().value_or(0);
}

}  // namespace ac_advisor::model
