#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {

enum class BiasRule : std::uint8_t { never, always, configured };  ///< configured: FieldNames::bias

/// What fields are called that most families name alike.
struct FieldNames {
  std::string_view hidden = "hidden_size";
  std::string_view intermediate = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";  ///< empty: as many as heads, always
  std::string_view positions = "max_position_embeddings";
  std::string_view epsilon = "rms_norm_eps";
  std::string_view theta = "rope_theta";
  std::string_view rotary_share = "partial_rotary_factor";
  std::string_view attention_dropout = "attention_dropout";
  std::string_view residual_dropout = {};  ///< empty: none is applied
  std::string_view embedding_dropout = {};
  std::string_view bias = "attention_bias";
  std::string_view output_bias = {};  ///< empty: `bias` says it, too
  std::string_view experts = {};      ///< where they are called neither num_experts nor alike
  std::string_view top_k = "num_experts_per_tok";
  std::string_view older_hidden = {};  ///< which comes first, where there is one
};

/// Which blocks have a sliding window.
enum class WindowRule : std::uint8_t {
  none,
  every_block,          ///< "sliding_window" holds for all blocks
  every_block_if_used,  ///< the same, with "use_sliding_window"
  late_blocks_if_used,  ///< "layer_types", else from "max_window_layers" on
  late_blocks,          ///< the same, without "use_sliding_window"
  pattern,              ///< "layer_types", else all but every `window_pattern`-th block
  unrotated_if_used,    ///< "layer_types", else the blocks without rotary embeddings
  chunks,               ///< "attention_chunk_size"; "layer_types", else the rotated blocks
};

enum class ExpertRule : std::uint8_t {
  none,
  every_block,    ///< experts as wide as "intermediate_size", routing weights always normalized
  some_blocks,    ///< "moe_intermediate_size", "decoder_sparse_step", "mlp_only_layers"
  late_blocks,    ///< "moe_intermediate_size", from "first_k_dense_replace" on
  typed_blocks,   ///< as late_blocks, those that "mlp_layer_types" calls sparse, else all but one
  listed_blocks,  ///< "intermediate_size"; "moe_layers", else each "interleave_moe_layer_step"-th
  every_so_many,  ///< "moe_intermediate_size", each "moe_layer_interval"-th within bounds
};

/// One family of Hugging Face transformers: what its configuration class takes where a field is
/// absent, and the facts of its modelling code. families.cpp has one row for each.
struct Family {
  std::string_view name;          ///< model_type
  std::string_view wrapper = {};  ///< multimodal model_type whose text_config is of this family

  // Defaults of absent fields: configuration_<name>.py
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embeddings = false;
  std::int64_t pad_token_id = -1;   ///< -1: none
  std::int64_t sliding_window = 0;  ///< 0: none
  std::int64_t max_window_layers = 0;
  std::int64_t window_pattern = 0;
  std::string_view activation_field = "hidden_act";
  Activation activation = Activation::silu;
  std::optional<double> attention_softcap = {};
  std::optional<double> final_softcap = {};
  std::int64_t no_rope_interval = 0;  ///< every so many blocks one has no rotary embeddings
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_intermediate = 0;
  std::int64_t shared_intermediate = 0;  ///< "shared_expert_intermediate_size"
  std::int64_t positions = 0;            ///< of a learned table
  double rotary_share = 1.0;
  std::int64_t rotary_dim = 0;  ///< "rotary_dim"; 0: the family has a share instead
  double residual_dropout = 0.0;
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double logits_multiplier = 0.0;  ///< "logit_scale"; 0: the family has none
  bool biased = false;             ///< where `bias` is absent

  // Facts of modeling_<name>.py (and of the configuration class's own checks)
  bool heads_divide_hidden = false;  ///< checked even where head_dim is given
  BiasRule qkv_bias = BiasRule::never;
  BiasRule output_bias = BiasRule::never;
  bool mlp_bias_field = false;
  BiasRule mlp_bias = BiasRule::never;  ///< where there is no field of its own
  FieldNames fields = {};
  bool multiplier_fields = false;  ///< granite's four
  bool scale_fields = false;       ///< minicpm's three
  /// Of a family that transformers has no code for: what is planned, for a warning.
  std::string_view own_code = {};
  bool gelu_is_tanh = false;  ///< an activation "gelu" means its approximation
  WindowRule windows = WindowRule::none;
  bool window_pattern_field = false;
  bool attention_softcap_field = false;
  bool final_softcap_field = false;
  bool partial_rotary_field = false;
  bool query_scalar_field = false;       ///< query_pre_attn_scalar in head_dim's place
  bool residual_dropout_field = false;   ///< resid_pdrop
  bool rotary_dim_field = false;         ///< "rotary_dim", else the share (minimax_m2)
  bool rotary_table_per_window = false;  ///< one table for windowed blocks, one for the others
  ExpertRule moe = ExpertRule::none;
  bool qk_norm = false;
  bool fused_qkv = false;
  bool fused_gate_up = false;
  bool joined_rotary_part = false;    ///< as in ModelSpec
  bool wide_routing_weights = false;  ///< MoeSpec::wide_weights
  bool qk_norm_whole = false;
  bool post_norms_only = false;
  bool wide_norm_scale = false;
  bool wide_rotary = false;
  bool top_k_norm_field = false;  ///< norm_topk_prob where every block has experts
  bool plain_top_k = false;       ///< an absent norm_topk_prob of late blocks is false
  bool normalized_top_k = false;  ///< an absent norm_topk_prob where some have
  bool sandwich_norms = false;
  bool unit_offset_norm = false;
  bool scaled_embedding = false;
  bool eager_attention_only = false;
  // As in ModelSpec:
  Norm norm = Norm::rms;
  bool plain_mlp = false;
  bool side_by_side = false;
  bool side_by_side_field = false;  ///< "use_parallel_residual", absent: `side_by_side`
  bool shared_norm = false;
  bool branches_first = false;
  bool keeps_attention_out = false;
  bool dropout_in_block = false;
  bool turned_first = false;
  bool norms_after_heads = false;
  bool qk_norm_field = false;   ///< "use_qk_norm"
  bool sigmoid_scores = false;  ///< as in MoeSpec
  bool norms_first = false;
  bool head_bias = false;
  QkvLayout qkv_layout = QkvLayout::sliced;
  bool input_first = false;
  bool scaled_queries = false;
  bool masked_positions = false;
  bool flat_mlp = false;
  bool interleaved_rotary = false;
  bool rotary_in_block = false;
  bool widened_rotary = false;
  bool learned_positions = false;
  std::int64_t position_offset = 0;     ///< rows before the first position (opt)
  bool windows_alone_rotate = false;    ///< blocks without a window have no rotary embeddings,
  bool rotates_without_window = false;  ///< but where "sliding_window" is null (exaone4)
  bool square_output = false;           ///< the output's projection is of the hidden size (helium)
  Rotation rotation = Rotation::halves;
  PositionGrids position_grids = PositionGrids::one;
  bool position_scaled_queries = false;
  bool no_packed_check = false;
  bool attention_sinks = false;
  bool embedding_norm = false;
  bool alibi = false;
  bool fp32_scores = false;
  bool always_masked = false;
  bool residual_inside = false;
  bool norms_together = false;
  bool adds_in_place = false;
  bool keeps_block_outputs = false;
  bool measured_positions = false;
  bool unweighted_qk_norm_field = false;  ///< "use_qk_norm", absent: true
  bool tuned_temperature_field = false;   ///< "attn_temperature_tuning", absent: true
  bool narrow_softmax = false;
  bool every_expert = false;  ///< as in MoeSpec
  /// An LM head of the first release is a plain one: the vocabulary tells (baichuan).
  std::int64_t plain_head_vocab = 0;
  bool normalized_head = false;  ///< but for that
  /// "model_max_length" without "max_position_embeddings" is of the code with ALiBi (baichuan).
  bool alibi_in_larger = false;
  bool gated_attention = false;
  bool delta_net = false;             ///< "layer_types" with gated delta nets, and their sizes
  bool head_bias_field = false;       ///< "lm_head_bias"
  bool decoder_architecture = false;  ///< falcon's fields of heads, norms and residuals
  bool sparse_mixer = false;          ///< as in MoeSpec
  bool latent_attention = false;      ///< "kv_lora_rank" and the sizes beside it, absent:
  LatentAttention latent = {
      .q_rank = 1536, .kv_rank = 512, .plain_dim = 128, .rotated_dim = 64, .value_dim = 128};
  bool softmax_of_top = false;  ///< as in MoeSpec, and wide_scores
  bool wide_scores = false;
  bool biased_experts = false;      ///< MoeSpec's biased, input_first, clamped_gate
  std::int64_t dense_blocks = 1;    ///< of an absent "first_k_dense_replace"
  std::int64_t shared_experts = 1;  ///< of an absent "n_shared_experts"
  std::int64_t expert_groups = 1, top_groups = 1;
  double routed_scaling = 1.0;
  bool undivided_embedding = false;  ///< "word_embed_proj_dim" must be the hidden size (opt)
  /// Fields that the configuration class stores and the modelling code applies nowhere.
  std::string_view unused_fields = {};
  std::optional<MegatronExperts> megatron = {};  ///< as in MoeSpec
};

/// All families in alphabetical order.
[[nodiscard]] std::span<const Family> families();
/// The family of a `model_type`, a wrapper's included; nullptr where it is unknown.
[[nodiscard]] const Family* find_family(std::string_view model_type);

}  // namespace ac_advisor::model
