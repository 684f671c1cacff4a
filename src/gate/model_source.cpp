#include "model_source.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "model/found_config.hpp"
#include "model/hub_models.hpp"

namespace ac_advisor::gate {
namespace {

namespace fs = std::filesystem;

struct Origin {
  const char* figure;   ///< as profile::model_fields names it
  const char* sources;  ///< fields of config.json that decide it (src/model/parse_config.cpp)
};

constexpr Origin origins[] = {
    {"family", "model_type as"},
    {"hidden", "hidden_size n_embd n_embed"},
    {"intermediate", "intermediate_size intermediate_size_mlp ffn_dim n_inner ffn_hidden_size"},
    {"layers", "num_hidden_layers n_layer"},
    {"heads", "num_attention_heads n_head"},
    {"kv_heads",
     "num_key_value_heads num_attention_heads num_kv_heads multi_query new_decoder_architecture"},
    {"head_dim", "head_dim hidden_size num_attention_heads"},
    {"vocab", "vocab_size"},
    {"max_positions", "max_position_embeddings n_positions"},
    {"rms_norm_eps", "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps"},
    {"attention_dropout", "attention_dropout attn_pdrop"},
    {"pad_token_id", "pad_token_id vocab_size"},
    {"rope_theta", "rope_theta rotary_emb_base"},
    {"tied_embeddings", "tie_word_embeddings"},
    {"qkv_bias", "attention_bias use_bias use_qkv_bias qkv_bias enable_bias"},
    {"output_bias", "attention_bias use_bias enable_bias"},
    {"mlp_bias", "mlp_bias use_bias enable_bias"},
    {"kv_sharing", "num_kv_shared_layers"},
    {"attention_softcap", "attn_logit_softcapping"},
    {"final_softcap", "final_logit_softcapping"},
    {"activation", "hidden_act hidden_activation activation_function activation"},
    {"rotary_dim",
     "rotary_dim partial_rotary_factor rotary_pct head_dim hidden_size num_attention_heads"},
    {"rotary_tables", "layer_types sliding_window_pattern sliding_window num_hidden_layers"},
    {"window",
     "sliding_window use_sliding_window max_window_layers layer_types sliding_window_pattern "
     "attention_chunk_size num_hidden_layers"},
    {"sparse_block",
     "decoder_sparse_step mlp_only_layers first_k_dense_replace moe_layers "
     "interleave_moe_layer_step num_hidden_layers"},
    {"moe.experts", "num_experts num_local_experts n_routed_experts"},
    {"moe.top_k", "num_experts_per_tok"},
    {"moe.intermediate", "moe_intermediate_size intermediate_size"},
    {"moe.normalize_top_k", "norm_topk_prob"},
    {"moe.shared_intermediate",
     "shared_expert_intermediate_size n_shared_experts moe_intermediate_size intermediate_size"},
    {"logits_multiplier", "logit_scale"},
    {"side_by_side", "use_parallel_residual parallel_attn new_decoder_architecture"},
    {"head_bias", "lm_head_bias"},
    {"repeats_keys", "new_decoder_architecture"},
    {"moe.input_jitter", "input_jitter_noise"},
    {"unweighted_qk_norm", "use_qk_norm"},
    {"tuned_temperature", "attn_temperature_tuning"},
    {"attention_chunk", "attention_chunk_size"},
    {"position_table", "max_position_embeddings n_positions"},
    {"residual_dropout", "residual_dropout resid_pdrop hidden_dropout dropout"},
    {"embedding_dropout", "embedding_dropout embd_pdrop hidden_dropout"},
    {"embedding_multiplier", "embedding_multiplier"},
    {"residual_multiplier", "residual_multiplier"},
    {"logits_divisor", "logits_scaling"},
    {"delta.key_heads", "linear_num_key_heads"},
    {"delta.value_heads", "linear_num_value_heads"},
    {"delta.key_dim", "linear_key_head_dim"},
    {"delta.value_dim", "linear_value_head_dim"},
    {"delta.taps", "linear_conv_kernel_dim"},
    {"delta_block", "layer_types full_attention_interval num_hidden_layers"},
    {"unrotated_block", "no_rope_layers no_rope_layer_interval num_hidden_layers"},
    {"tower.encoder", "model_type"},
    {"tower.parameters", "hidden_size intermediate_size num_hidden_layers image_size patch_size"},
};

const std::set<std::string>& all_sources() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const Origin& origin : origins) {
      std::istringstream words(origin.sources);
      for (std::string word; words >> word;) all.insert(word);
    }
    return all;
  }();
  return names;
}

void collect(const nlohmann::json& json, const std::string& prefix,
             std::map<std::string, std::string>& fields) {
  for (const auto& item : json.items()) {
    if (item.value().is_object())
      collect(item.value(), prefix + item.key() + ".", fields);
    else if (all_sources().count(item.key()) > 0)
      fields[prefix + item.key()] =
          item.value().is_string() ? item.value().get<std::string>() : item.value().dump();
  }
}

/// MODEL's file; empty where it is a sample's name.
std::string config_path(const GateFile& file, const std::string& model) {
  if (model::is_config(model)) return "";
  const fs::path path = resolve_path(file, model);
  std::error_code error;
  if (fs::is_directory(path, error) && fs::exists(path / "config.json", error))
    return (path / "config.json").string();
  return fs::exists(path, error) ? path.string() : "";
}

bool is_built_in(const std::string& name) {
  const std::vector<std::string> samples = model::sample_names();
  return std::find(samples.begin(), samples.end(), name) != samples.end() ||
         model::find_hub_model(name).has_value();
}

/// The name of a missing file, not that of the case, belongs into the error.
std::string model_argument(const GateFile& file, const Case& c) {
  if (model::is_config(c.model)) return c.model;
  const bool built_in = config_path(file, c.model).empty() && is_built_in(c.model);
  return built_in ? c.model : resolve_path(file, c.model);
}

}  // namespace

const char* sources_of(const std::string& figure) {
  for (const Origin& origin : origins)
    if (figure == origin.figure) return origin.sources;
  return "";
}

std::map<std::string, std::string> read_model_fields(const std::string& text) {
  std::map<std::string, std::string> fields;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object()) collect(json, "", fields);
  return fields;
}

bool needs_capture(const GateFile& file, const Case& c, const capture::Settings& capture) {
  return !c.model.empty() && capture::needs_capture(model_argument(file, c), c.as, capture);
}

ModelSource load_model_source(const GateFile& file, const Case& c,
                              const capture::Settings& capture) {
  ModelSource source;
  source.path = config_path(file, c.model);
  const model::FoundConfig found = model::find_config(model_argument(file, c));
  source.spec = capture::load_model(found, c.as, c.options, capture);
  source.fields = read_model_fields(found.text);
  if (!c.as.empty()) source.fields["as"] = c.as;
  return source;
}

}  // namespace ac_advisor::gate
