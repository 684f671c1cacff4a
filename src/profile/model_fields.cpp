#include <fmt/format.h>

#include "ac_advisor/profile/config_fields.hpp"
#include "model_record.hpp"

namespace ac_advisor::profile {
namespace {

/// Runs of equal values: "0×5 512 0×5 512".
template <typename T>
std::string runs(const std::vector<T>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i;
    while (end < list.size() && list[end] == list[i]) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : " ", static_cast<std::int64_t>(list[i]));
    if (end - i > 1) text += fmt::format("×{}", end - i);
    i = end;
  }
  return text;
}

}  // namespace

std::vector<Field> model_fields(const model::ModelSpec& m) {
  std::vector<Field> fields{
      {"name", m.name},
      {"family", m.family},
      {"parameters", model::parameter_count(m)},
      {"hidden", m.hidden},
      {"intermediate", m.intermediate},
      {"layers", m.layers},
      {"heads", m.heads},
      {"kv_heads", m.kv_heads},
      {"head_dim", m.head_dim},
      {"vocab", m.vocab},
      {"max_positions", m.max_positions},
      {"rms_norm_eps", m.rms_norm_eps},
      {"attention_dropout", m.attention_dropout},
      {"pad_token_id", m.pad_token_id},
      {"rope_theta", m.rope_theta},
      {"local_rope_theta", m.local_rope_theta},
      {"attention_scale", m.attention_scale},
      {"rope_scaling", m.rope_scaling
                           ? fmt::format("{} {:g}", m.rope_scaling->type, m.rope_scaling->factor)
                           : std::string("none")},
      {"tied_embeddings", m.tied_embeddings},
      {"qkv_bias", m.qkv_bias},
      {"output_bias", m.output_bias},
      {"mlp_bias", m.mlp_bias},
      {"qk_norm", m.qk_norm},
      {"fused_qkv", m.fused_qkv},
      {"fused_gate_up", m.fused_gate_up},
      {"sandwich_norms", m.sandwich_norms},
      {"unit_offset_norm", m.unit_offset_norm},
      {"scaled_embedding", m.scaled_embedding},
      {"eager_attention_only", m.eager_attention_only},
      {"kv_sharing", m.kv_sharing},
      {"attention_softcap", m.attention_softcap.value_or(0.0)},
      {"final_softcap", m.final_softcap.value_or(0.0)},
      {"activation", std::string(name_of(m.activation))},
      {"rotary_dim", m.rotary_dim},
      {"rotary_tables", m.rotary_tables},
      {"window", runs(m.window)},
      {"sparse_block", runs(m.sparse_block)}};
  const model::MoeSpec moe = m.moe.value_or(model::MoeSpec{});
  fields.push_back({"moe.experts", moe.experts});
  fields.push_back({"moe.top_k", moe.top_k});
  fields.push_back({"moe.intermediate", moe.intermediate});
  fields.push_back({"moe.normalize_top_k", moe.normalize_top_k});
  // Later than the first baselines: there only where a model has them, so that those still hold.
  if (m.embedding_multiplier) fields.push_back({"embedding_multiplier", *m.embedding_multiplier});
  if (m.residual_multiplier) fields.push_back({"residual_multiplier", *m.residual_multiplier});
  if (m.hidden_divisor) fields.push_back({"hidden_divisor", *m.hidden_divisor});
  if (m.logits_divisor) fields.push_back({"logits_divisor", *m.logits_divisor});
  if (m.logits_multiplier) fields.push_back({"logits_multiplier", *m.logits_multiplier});
  if (m.side_by_side) fields.push_back({"side_by_side", m.side_by_side});
  if (m.position_table > 0) fields.push_back({"position_table", m.position_table});
  if (m.residual_dropout > 0) fields.push_back({"residual_dropout", m.residual_dropout});
  if (m.embedding_dropout > 0) fields.push_back({"embedding_dropout", m.embedding_dropout});
  if (moe.shared_intermediate > 0)
    fields.push_back({"moe.shared_intermediate", moe.shared_intermediate});
  // Of a mixture of experts by its configuration (phimoe); elsewhere its family says it.
  if (m.head_bias && m.moe) fields.push_back({"head_bias", m.head_bias});
  if (m.repeats_keys) fields.push_back({"repeats_keys", m.repeats_keys});
  if (m.unweighted_qk_norm) fields.push_back({"unweighted_qk_norm", m.unweighted_qk_norm});
  if (m.tuned_temperature) fields.push_back({"tuned_temperature", m.tuned_temperature});
  if (m.attention_chunk > 0) fields.push_back({"attention_chunk", m.attention_chunk});
  if (moe.input_jitter) fields.push_back({"moe.input_jitter", moe.input_jitter});
  if (moe.unbalanced) fields.push_back({"moe.unbalanced", moe.unbalanced});
  if (moe.returns_logits) fields.push_back({"moe.returns_logits", moe.returns_logits});
  if (moe.megatron && m.family == "megatron") {
    fields.push_back({"moe.megatron.sinkhorn", moe.megatron->sinkhorn});
    fields.push_back({"moe.megatron.aux_loss", moe.megatron->aux_loss});
    fields.push_back({"moe.megatron.pre_softmax", moe.megatron->pre_softmax});
    fields.push_back({"moe.megatron.wide_router", moe.megatron->wide_router});
    fields.push_back({"moe.megatron.grouped", moe.megatron->grouped});
    fields.push_back({"moe.megatron.all_to_all", moe.megatron->all_to_all});
    if (moe.megatron->fused_permute)
      fields.push_back({"moe.megatron.fused_permute", moe.megatron->fused_permute});
    if (moe.megatron->sequence_loss)
      fields.push_back({"moe.megatron.sequence_loss", moe.megatron->sequence_loss});
    if (moe.megatron->expert_bias)
      fields.push_back({"moe.megatron.expert_bias", moe.megatron->expert_bias});
    if (moe.sigmoid_scores) fields.push_back({"moe.sigmoid_scores", moe.sigmoid_scores});
  }
  if (moe.groups > 1) {
    fields.push_back({"moe.groups", moe.groups});
    fields.push_back({"moe.top_groups", moe.top_groups});
  }
  if (m.latent) {
    fields.push_back({"latent.q_rank", m.latent->q_rank});
    fields.push_back({"latent.kv_rank", m.latent->kv_rank});
    fields.push_back({"latent.plain_dim", m.latent->plain_dim});
    fields.push_back({"latent.rotated_dim", m.latent->rotated_dim});
    fields.push_back({"latent.value_dim", m.latent->value_dim});
  }
  if (m.delta) {
    fields.push_back({"delta.key_heads", m.delta->key_heads});
    fields.push_back({"delta.value_heads", m.delta->value_heads});
    fields.push_back({"delta.key_dim", m.delta->key_dim});
    fields.push_back({"delta.value_dim", m.delta->value_dim});
    fields.push_back({"delta.taps", m.delta->taps});
    fields.push_back({"delta_block", runs(m.delta_block)});
  }
  if (!m.unrotated_block.empty()) fields.push_back({"unrotated_block", runs(m.unrotated_block)});
  if (m.tower) {
    fields.push_back({"tower.encoder", m.tower->encoder});
    fields.push_back({"tower.parameters", model::tower_parameter_count(m)});
  }
  return fields;
}

}  // namespace ac_advisor::profile
