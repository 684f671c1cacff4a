// Sources: transformers 5.23.0, models/<name>/configuration_<name>.py for the defaults and
// models/<name>/modeling_<name>.py for the rest (gemma3_text: models/gemma3/). A new family is a
// new row; a fact that no row has yet is a new flag, here and in ModelSpec, and its lowering.
#include "family.hpp"

namespace ac_advisor::model {
namespace {

// clang-format off
constexpr Family table[] = {
    {.name = "gemma",
     .vocab = 256000, .hidden = 3072, .intermediate = 24576, .layers = 28,
     .heads = 16, .kv_heads = 16, .head_dim = 256,
     .tied_embeddings = true,
     .pad_token_id = 0,
     .activation = Activation::gelu_tanh,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .gelu_is_tanh = true,
     .unit_offset_norm = true, .scaled_embedding = true,
     .unused_fields = "hidden_activation", .default_adapters = true},
    {.name = "gemma2",
     .vocab = 256000, .hidden = 2304, .intermediate = 9216, .layers = 26,
     .heads = 8, .kv_heads = 4, .head_dim = 256,
     .tied_embeddings = true,
     .pad_token_id = 0,
     .sliding_window = 4096, .window_pattern = 2,
     .activation_field = "hidden_activation", .activation = Activation::gelu_tanh,
     .attention_softcap = 50.0, .final_softcap = 30.0,
     .heads_divide_hidden = true,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .windows = WindowRule::pattern,
     .attention_softcap_field = true, .final_softcap_field = true,
     .query_scalar_field = true,
     .sandwich_norms = true, .unit_offset_norm = true, .scaled_embedding = true,
     .eager_attention_only = true, .unused_fields = "hidden_act sliding_window_size", .default_adapters = true},  // _supports_sdpa = False: "sdpa does not support softcapping"
    {.name = "gemma3_text",
     .wrapper = "gemma3",
     .vocab = 262208, .hidden = 2304, .intermediate = 9216, .layers = 26,
     .heads = 8, .kv_heads = 4, .head_dim = 256,
     .rope_theta = 1000000.0,
     .tied_embeddings = true,
     .pad_token_id = 0,
     .sliding_window = 4096, .window_pattern = 6,
     .activation_field = "hidden_activation", .activation = Activation::gelu_tanh,
     .heads_divide_hidden = true,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .windows = WindowRule::pattern, .window_pattern_field = true,
     .final_softcap_field = true,
     .query_scalar_field = true,
     .rotary_table_per_window = true,
     .qk_norm = true,
     .sandwich_norms = true, .unit_offset_norm = true, .scaled_embedding = true,
     .unused_fields = "hidden_act attn_logit_softcapping", .default_adapters = true},
    {.name = "granite",
     .vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
     .heads = 32,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .mlp_bias_field = true, .multiplier_fields = true},
    {.name = "llama",
     .vocab = 32000, .hidden = 4096, .intermediate = 11008, .layers = 32,
     .heads = 32,
     .heads_divide_hidden = true,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .mlp_bias_field = true, .default_adapters = true},
    {.name = "mistral",
     .vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
     .heads = 32, .kv_heads = 8,
     .sliding_window = 4096,
     .windows = WindowRule::every_block, .default_adapters = true},
    {.name = "mixtral",
     .vocab = 32000, .hidden = 4096, .intermediate = 14336, .layers = 32,
     .heads = 32, .kv_heads = 8,
     .rms_norm_eps = 1e-5,
     .rope_theta = 1000000.0,
     .experts = 8, .top_k = 2,
     .windows = WindowRule::every_block,
     .moe = ExpertRule::every_block,
     .wide_routing_weights = true, .default_adapters = true},
    {.name = "olmo2",
     .vocab = 50304, .hidden = 4096, .intermediate = 11008, .layers = 32,
     .heads = 32,
     .rms_norm_eps = 1e-5,
     .pad_token_id = 1,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .qk_norm = true, .qk_norm_whole = true,
     .post_norms_only = true, .wide_norm_scale = true, .wide_rotary = true},
    {.name = "olmo3",
     .vocab = 50304, .hidden = 4096, .intermediate = 11008, .layers = 32,
     .heads = 32,
     .rms_norm_eps = 1e-5,
     .rope_theta = 500000.0,
     .pad_token_id = 1,
     .sliding_window = 4096, .window_pattern = 4,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .windows = WindowRule::pattern,
     .rotary_table_per_window = true,
     .qk_norm = true, .qk_norm_whole = true,
     .post_norms_only = true, .wide_norm_scale = true, .wide_rotary = true},
    {.name = "olmoe",
     .vocab = 50304, .hidden = 2048, .intermediate = 2048, .layers = 16,
     .heads = 16,
     .rms_norm_eps = 1e-5,
     .pad_token_id = 1,
     .experts = 64, .top_k = 8,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .moe = ExpertRule::every_block,
     .qk_norm = true, .qk_norm_whole = true, .top_k_norm_field = true},
    {.name = "phi3",
     .vocab = 32064, .hidden = 3072, .intermediate = 8192, .layers = 32,
     .heads = 32,
     .rms_norm_eps = 1e-5,
     .pad_token_id = 32000,
     .windows = WindowRule::every_block,
     .partial_rotary_field = true, .residual_dropout_field = true,
     .fused_qkv = true, .fused_gate_up = true, .joined_rotary_part = true,
     .unused_fields = "embd_pdrop"},
    {.name = "qwen2",
     .vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
     .heads = 32, .kv_heads = 32,
     .sliding_window = 4096, .max_window_layers = 28,
     .qkv_bias = BiasRule::always,
     .windows = WindowRule::late_blocks_if_used, .default_adapters = true},
    {.name = "qwen3",
     .vocab = 151936, .hidden = 4096, .intermediate = 22016, .layers = 32,
     .heads = 32, .kv_heads = 32, .head_dim = 128,
     .sliding_window = 4096, .max_window_layers = 28,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .windows = WindowRule::late_blocks_if_used,
     .qk_norm = true, .default_adapters = true},
    {.name = "qwen3_moe",
     .vocab = 151936, .hidden = 2048, .intermediate = 6144, .layers = 24,
     .heads = 32, .kv_heads = 4,
     .sliding_window = 4096,
     .experts = 128, .top_k = 8, .expert_intermediate = 768,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .windows = WindowRule::every_block_if_used,
     .moe = ExpertRule::some_blocks,
     .qk_norm = true},
    {.name = "smollm3",
     .vocab = 128256, .hidden = 2048, .intermediate = 11008, .layers = 36,
     .heads = 16, .kv_heads = 4,
     .tied_embeddings = true,
     .pad_token_id = 128004,
     .no_rope_interval = 4,
     .qkv_bias = BiasRule::configured, .output_bias = BiasRule::configured,
     .mlp_bias_field = true,
     .windows = WindowRule::unrotated_if_used},
};
// clang-format on

}  // namespace

std::span<const Family> families() { return table; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : table)
    if (family.name == model_type || (!model_type.empty() && family.wrapper == model_type))
      return &family;
  return nullptr;
}

void set_family_facts(ModelSpec& spec) {
  const Family* family = find_family(spec.family);
  spec.joined_rotary_part = family != nullptr && family->joined_rotary_part;
  spec.qk_norm_whole = family != nullptr && family->qk_norm_whole;
  spec.post_norms_only = family != nullptr && family->post_norms_only;
  spec.wide_norm_scale = family != nullptr && family->wide_norm_scale;
  spec.wide_rotary = family != nullptr && family->wide_rotary;
  spec.default_adapters = family != nullptr && family->default_adapters;
  if (spec.moe) spec.moe->wide_weights = family != nullptr && family->wide_routing_weights;
}

const std::vector<std::string>& known_families() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Family& family : table) all.emplace_back(family.name);
    return all;
  }();
  return names;
}

}  // namespace ac_advisor::model
