#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::test {

/// A small configuration of a family: only what every family must have.
inline nlohmann::json small_config(const std::string& model_type) {
  nlohmann::json config{{"model_type", model_type}, {"hidden_size", 64},
                        {"intermediate_size", 160}, {"num_hidden_layers", 4},
                        {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                        {"vocab_size", 512}};
  if (model_type == "opt") config["ffn_dim"] = 160;
  if (model_type == "llama4_text") config["intermediate_size_mlp"] = 192;
  if (model_type == "gptj") config["rotary_dim"] = 8;
  if (model_type == "qwen3_5_moe_text") config["moe_intermediate_size"] = 160;
  if (model_type == "deepseek_v2") config["num_experts_per_tok"] = 2;
  if (model_type == "dots1")
    config.update({{"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"n_shared_experts", 1}});
  if (model_type == "helium") config["head_dim"] = 16;
  return config;
}

inline model::ModelSpec parse(const nlohmann::json& config, const std::string& as = {}) {
  return model::parse_config(config.dump(), "llama.json", "llama", as);
}

/// What the user reads; "" when the configuration is accepted.
inline std::string error_of(const std::string& text, const std::string& as = {}) {
  try {
    static_cast<void>(model::parse_config(text, "llama.json", "llama", as));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}
inline std::string error_of(const nlohmann::json& config, const std::string& as = {}) {
  return error_of(config.dump(), as);
}
inline std::string error_of(const char* text) { return error_of(std::string(text)); }

}  // namespace ac_advisor::test
