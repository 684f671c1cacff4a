// Fields of the configuration classes of transformers 5.23.0 (configuration_utils.py and
// models/*/configuration_*.py) and of older and remote-code releases of the same models. What is
// not here is told to be unknown, so a row more is a word of explanation more.
#include "field_effects.hpp"

#include <algorithm>
#include <vector>

namespace ac_advisor::model {
namespace {

// Without effect on shapes and ops.
constexpr std::string_view without_effect[] = {
    // clang-format off
    "architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype",
    "name_or_path", "use_cache", "initializer_range", "initializer_factor", "init_std",
    "initializer_cutoff_factor", "rescale_prenorm_residual", "pretraining_tp",
    "gradient_checkpointing", "attn_implementation", "cache_implementation", "use_flash_attn",
    "use_return_dict", "return_dict", "torchscript", "use_bfloat16", "output_attentions",
    "output_hidden_states", "chunk_size_feed_forward", "id2label", "label2id", "num_labels",
    "problem_type", "finetuning_task", "task_specific_params", "prefix", "tokenizer_class",
    "pruned_heads", "tie_encoder_decoder", "is_decoder", "classifier_dropout", "classifier_bias",
    "classifier_pooling", "classifier_activation", "bos_token_id", "eos_token_id", "pad_token_id",
    "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "eod_token_id",
    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "image_token_id",
    "image_token_index", "video_token_id", "audio_token_id", "vision_token_id",
    "vision_start_token_id", "vision_end_token_id", "boi_token_id", "eoi_token_id",
    "boi_token_index", "eoi_token_index", "boa_token_id", "eoa_token_id", "eoa_token_index",
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
    "num_return_sequences", "output_scores", "return_dict_in_generate", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    "num_logits_to_keep", "keys_to_ignore_at_inference", "summary_type", "summary_use_proj",
    "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
    "summary_last_dropout", "max_position_embeddings", "max_sequence_length", "model_max_length",
    "seq_length", "seq_len", "max_seq_len", "n_ctx", "initial_context_length", "context_length",
    "original_max_position_embeddings", "max_window_layers", "rope_theta", "rope_parameters",
    "rope_scaling", "rope_local_base_freq", "rms_norm_eps", "eps", "router_aux_loss_coef",
    "aux_loss_alpha", "aux_loss_coef", "seq_aux", "z_loss_coefficient", "ep_size",
    "norm_topk_prob", "router_jitter_noise", "input_jitter_noise", "output_router_logits",
    "is_llama_config", "unsloth_fixed", "unsloth_version", "tie_word_embeddings", "text_config",
    "vocab_size", "projector_hidden_act", "mm_tokens_per_image", "vision_feature_select_strategy",
    "projection_dim", "ignore_index", "transformers.js_config",
    "base_config_key", "sub_configs", "mamba_ssm_dtype", "deepstack_visual_indexes", "head_dim",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx", "rotary", "rotary_emb_base", "bias_dropout_fusion",
    "masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv",
    "slow_but_exact", "attn_scale", "floor_scale", "for_llm_compression", "pixel_shuffle_ratio",
    "projector_dropout", "multi_modal_projector_bias",
    // clang-format on
};

// Read by inference servers alone.
constexpr std::string_view of_other_programs[] = {"dual_chunk_attention_config"};

/// Fields that change the same thing and are neutral at the same value.
struct Group {
  std::string_view what;
  double neutral;
  std::string_view neutral_text;
  std::string_view names;  ///< separated by one space
};

constexpr Group structure[] = {
    // clang-format off
    {"experts", 0, "",
     "n_routed_experts num_experts num_local_experts moe_num_experts num_experts_per_tok "
     "num_experts_per_token experts_per_token moe_topk moe_k top_k_experts n_shared_experts "
     "num_shared_experts moe_num_shared_experts moe_intermediate_size "
     "shared_expert_intermediate_size shared_intermediate_size expert_ffn_hidden_size "
     "intermediate_size_mlp first_k_dense_replace num_dense_layers moe_layers moe_layer_freq "
     "moe_layer_interval moe_layer_start_index interleave_moe_layer_step decoder_sparse_step "
     "mlp_only_layers expert_layer_period expert_layer_offset enable_moe_block is_moe "
     "zero_expert_num ffn_config use_expert_bias moe_router_topk moe_ffn_hidden_size "
     "moe_grouped_gemm moe_token_dispatcher_type moe_router_load_balancing_type "
     "moe_aux_loss_coeff moe_shared_expert_intermediate_size moe_router_dtype "
     "moe_router_pre_softmax moe_router_score_function"},
    {"routing of experts", 1, "",
     "n_group topk_group routed_scaling_factor router_scaling_factor route_scale "
     "moe_routed_scaling_factor"},
    {"routing of experts", 0, "softmax",
     "scoring_func"},
    {"routing of experts", 0, "greedy",
     "topk_method"},
    {"experts", 0, "dense",
     "mlp_layer_types"},
    {"latent attention (MLA)", 0, "",
     "kv_lora_rank q_lora_rank o_lora_rank qk_nope_head_dim qk_rope_head_dim qk_head_dim "
     "v_head_dim"},
    {"sparse attention", 0, "",
     "index_head_dim index_n_heads index_topk indexer_types"},
    {"LayerNorm in place of RMSNorm", 0, "",
     "layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_epsilon norm_eps norm_bias"},
    {"another norm", 0, "rms_norm",
     "norm_type norm_func normalization_type"},
    {"norms of q and k", 0, "",
     "use_qk_norm qk_layernorm qk_norm query_key_norm layernorm_qkv"},
    {"other norms", 0, "",
     "use_post_norm use_sandwich_norm sandwich_norm num_ln_in_parallel_attn "
     "apply_residual_connection_post_layernorm post_norm gated_norm_rank"},
    {"other norms", 1, "",
     "do_layer_norm_before layer_norm_elementwise_affine"},
    {"biases", 1, "",
     "enable_bias"},
    {"another attention", 0, "",
     "reorder_and_upcast_attn"},
    {"attention and MLP side by side", 0, "",
     "use_parallel_residual parallel_attn parallel_residual"},
    {"multipliers", 1, "",
     "embedding_multiplier residual_multiplier logits_scaling logit_scale lm_head_multiplier "
     "key_multiplier attention_out_multiplier attention_in_multiplier mlp_multipliers "
     "ssm_multipliers scale_emb embedding_scale"},
    {"multipliers", 0, "",
     "attention_multiplier scale_depth dim_model_base mup_enabled scale_embedding "
     "attention_value_scale logits_mup_width_multiplier query_pre_attn_scalar"},
    {"soft caps", 0, "",
     "attn_logit_softcapping final_logit_softcapping mlp_gate_softcap mlp_up_softcap "
     "moe_router_logit_softcapping"},
    {"blocks without rotary embeddings", 1, "",
     "no_rope_layers"},
    {"blocks without rotary embeddings", 0, "",
     "no_rope_layer_interval nope_layer_interval"},
    {"a partial rotation", 1, "",
     "partial_rotary_factor rotary_pct rotary_emb_fraction"},
    {"a partial rotation", 0, "",
     "rotary_dim rotary_ndims"},
    {"interleaved rotation", 0, "",
     "rope_interleaved rope_interleave rotary_interleaved"},
    {"position embeddings other than rotary ones", 0, "",
     "alibi use_alibi n_positions type_vocab_size learned_position_embeddings "
     "relative_attention_num_buckets use_absolute_position_embeddings use_mrope"},
    {"position embeddings other than rotary ones", 0, "rope",
     "position_embedding_type pos_emb"},
    {"another attention", 0, "",
     "attention_chunk_size attn_temperature_tuning attention_type attention_types attn_config "
     "window_size clip_qkv swa_num_attention_heads swa_num_key_value_heads swa_head_dim "
     "attention_k_eq_v use_attention_gate attn_output_gate attention_sink use_attention_sink "
     "add_swa_attention_sink_bias lambda_std_dev"},
    {"sliding windows", 0, "",
     "sliding_window use_sliding_window sliding_window_size interleaved_sliding_window global_attn_every_n_layers "
     "local_layer_ids sliding_window_layers full_attention_interval"},
    {"sliding windows", 1, "",
     "sliding_window_pattern"},
    {"kinds of blocks", 0, "full_attention",
     "layer_types"},
    {"kinds of blocks", 0, "",
     "layers_block_type hybrid_override_pattern block_configs attn_layer_period "
     "attn_layer_offset attn_layer_indices full_attn_idxs num_attention_heads_per_layer"},
    {"recurrent blocks", 0, "",
     "linear_conv_kernel_dim linear_num_key_heads linear_num_value_heads linear_key_head_dim "
     "linear_value_head_dim linear_num_heads linear_head_dim linear_attn_config mamba_d_state "
     "mamba_d_conv mamba_expand mamba_n_heads mamba_d_head mamba_n_groups mamba_dt_rank "
     "mamba_d_ssm state_size time_step_rank conv_kernel conv_L_cache attention_hidden_size "
     "ssm_cfg short_conv_kernel_size use_conv_bias conv_bias conv_kernel_size"},
    {"biases", 0, "",
     "bias use_bias add_bias qkv_bias use_qkv_bias add_qkv_bias attention_bias "
     "attention_out_bias mlp_bias lm_head_bias projectors_bias add_bias_linear"},
    {"heads of keys and values", 0, "",
     "multi_query num_kv_heads n_head_kv multi_query_attention multi_query_group_num kv_channels "
     "new_decoder_architecture"},
    {"the activation", 0, "",
     "hidden_act hidden_activation activation_function activation mlp_hidden_act activation_type"},
    {"the MLP", 0, "",
     "mlp_type ffn_hidden_size ffn_dim n_inner intermediate_multiple_size "
     "block_ffn_dim_multiplier use_double_wide_mlp swiglu_limit swiglu_alpha "
     "activation_sparsity_pattern"},
    {"the MLP", 1, "",
     "gated_mlp use_gated_mlp"},
    {"an encoder and a decoder", 0, "",
     "is_encoder_decoder add_cross_attention cross_attention_hidden_size cross_attention_layers "
     "encoder_layers encoder_ffn_dim encoder_attention_heads decoder_layers decoder_ffn_dim "
     "decoder_attention_heads num_decoder_layers d_kv d_ff"},
    {"sizes under another name", 0, "",
     "d_model n_embd n_embed n_head n_heads n_layer n_layers num_layers num_heads embedding_size "
     "word_embed_proj_dim embedding_hidden_size d_inner"},
    {"attention that is not causal", 1, "",
     "is_causal causal"},
    {"attention that is not causal", 0, "",
     "use_bidirectional_attention prefix_lm"},
    {"another loss", 0, "",
     "z_loss_weight"},
    {"dropout outside attention", 0, "",
     "resid_pdrop resid_dropout residual_dropout hidden_dropout hidden_dropout_prob embd_pdrop "
     "emb_pdrop embed_dropout embedding_dropout dropout dropout_p activation_dropout mlp_dropout "
     "layerdrop decoder_layerdrop encoder_layerdrop"},
    {"attention dropout", 0, "",
     "attn_pdrop attention_probs_dropout_prob"},
    {"residuals in fp32", 0, "",
     "residual_in_fp32 fp32_residual_connection"},
    {"per-layer embeddings", 0, "",
     "hidden_size_per_layer_input vocab_size_per_layer_input altup_num_inputs altup_active_idx "
     "altup_coef_clip altup_correct_scale laurel_rank"},
    {"keys and values that blocks share", 0, "",
     "num_kv_shared_layers"},
    {"an encoder of images or sound", 0, "",
     "vision_config audio_config speech_config vision_tower mm_vision_tower image_size "
     "patch_size num_channels image_seq_length"},
    {"layers that predict further tokens", 0, "",
     "num_nextn_predict_layers num_mtp_layers n_predict mtp_layer_types mtp_num_hidden_layers "
     "mtp_use_dedicated_embeddings"},
    {"a gate of attention's output", 0, "",
     "attn_output_gate"},
    {"hyper-connections", 0, "",
     "hc_mult"},
    {"blocks that differ", 0, "",
     "per_layer_config layer_rope_theta"},
    {"attention in windows of phi4", 1, "",
     "full_attn_mod interpolate_factor"},
    // clang-format on
};

std::vector<FieldEffect> make_table() {
  std::vector<FieldEffect> table;
  for (std::string_view name : without_effect) table.push_back({name});
  for (std::string_view name : of_other_programs) table.push_back({name, Effect::elsewhere});
  for (const Group& group : structure) {
    for (std::string_view rest = group.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      table.push_back(
          {rest.substr(0, end), Effect::structure, group.what, group.neutral, group.neutral_text});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::sort(table.begin(), table.end(),
            [](const FieldEffect& a, const FieldEffect& b) { return a.name < b.name; });
  return table;
}

}  // namespace

const FieldEffect* find_field_effect(std::string_view name) {
  static const std::vector<FieldEffect> table = make_table();
  const auto at =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const FieldEffect& field, std::string_view n) { return field.name < n; });
  return at != table.end() && at->name == name ? &*at : nullptr;
}

bool is_neutral(const FieldEffect& field, const JsonValue& value) {
  struct Neutral {
    const FieldEffect& field;
    bool operator()(std::nullptr_t) const { return true; }
    bool operator()(bool b) const { return b == (field.neutral == 1.0); }
    bool operator()(std::int64_t i) const { return (*this)(static_cast<double>(i)); }
    bool operator()(double d) const { return d == field.neutral; }
    bool operator()(const std::string& s) const { return s.empty() || s == field.neutral_text; }
    bool operator()(const JsonValue::List& list) const {
      return std::all_of(list.begin(), list.end(),
                         [&](const JsonValue& entry) { return is_neutral(field, entry); });
    }
    bool operator()(const JsonValue::Object& object) const { return object.keys.empty(); }
  };
  return std::visit(Neutral{field}, value.data);
}

}  // namespace ac_advisor::model
