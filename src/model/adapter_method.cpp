// PEFT's methods beside LoRA, and what they adapt (peft v0.21).
#include "ac_advisor/model/adapter_method.hpp"

#include <algorithm>

namespace ac_advisor {
namespace model {
namespace {

using enum AdapterPlace;

// tuners/<method>/config.py; a number without a default there has none here.
constexpr AdapterMethodRow methods[] = {
    {AdapterMethod::ia3, "ia3", {}, 0, linear_layers, "IA3Config", {}},
    {AdapterMethod::ln_tuning, "ln-tuning", {}, 0, norms, "LNTuningConfig", {}},
    {AdapterMethod::prompt_tuning, "prompt-tuning", "tokens", 0, embedding, "PromptTuningConfig",
     "num_virtual_tokens"},
    {AdapterMethod::p_tuning, "p-tuning", "tokens", 0, embedding, "PromptEncoderConfig",
     "num_virtual_tokens"},
    {AdapterMethod::prefix_tuning, "prefix-tuning", "tokens", 0, embedding, "PrefixTuningConfig",
     "num_virtual_tokens"},
    {AdapterMethod::loha, "loha", "rank", 8, linear_layers, "LoHaConfig", "r"},
    {AdapterMethod::lokr, "lokr", "rank", 8, linear_layers, "LoKrConfig", "r"},
    {AdapterMethod::vera, "vera", "rank", 256, linear_layers, "VeraConfig", "r"},
    {AdapterMethod::miss, "miss", "rank", 64, linear_layers, "MissConfig", "r"},
    {AdapterMethod::oft, "oft", "block", 32, linear_layers, "OFTConfig", "oft_block_size"},
    {AdapterMethod::road, "road", "variant", 1, linear_layers, "RoadConfig", "variant"},
    {AdapterMethod::adalora, "adalora", "rank", 12, linear_layers, "AdaLoraConfig", "init_r"},
    {AdapterMethod::glora, "glora", "rank", 8, linear_layers, "GloraConfig", "r"},
    {AdapterMethod::delora, "delora", "rank", 8, linear_layers, "DeloraConfig", "r"},
    {AdapterMethod::trainable_tokens, "trainable-tokens", "tokens", 0, embedding,
     "TrainableTokensConfig", "token_indices"},
};

/// utils/constants.py, TRANSFORMERS_MODELS_TO_<METHOD>_TARGET_MODULES_MAPPING.
struct Targets {
  std::string_view family, lora, ia3, norms;
};
constexpr std::string_view usual_norms = "input_layernorm,post_attention_layernorm,norm",
                           gemma_norms =
                               "input_layernorm,post_attention_layernorm,pre_feedforward_layernorm,"
                               "post_feedforward_layernorm,norm";
constexpr Targets targets[] = {
    {"bloom", "query_key_value", "query_key_value,mlp.dense_4h_to_h",
     "input_layernorm,post_attention_layernorm,ln_f"},
    {"falcon", "query_key_value", "query_key_value,dense_4h_to_h",
     "input_layernorm,post_attention_layernorm,ln_f"},
    {"gemma", "q_proj,v_proj", "q_proj,v_proj,down_proj", usual_norms},
    {"gemma2", "q_proj,v_proj", "q_proj,v_proj,down_proj", gemma_norms},
    {"gemma3_text", "q_proj,v_proj", "q_proj,v_proj,down_proj", gemma_norms},
    {"gpt2", "c_attn", "c_attn,mlp.c_proj", "ln_1,ln_2,ln_f"},
    {"gpt_neox", "query_key_value", "query_key_value,dense_4h_to_h", {}},
    {"gptj", "q_proj,v_proj", "q_proj,v_proj,fc_out", "ln_1,ln_f"},
    {"llama", "q_proj,v_proj", "k_proj,v_proj,down_proj", usual_norms},
    {"llama4_text", "q_proj,v_proj", {}, {}},
    {"mistral", "q_proj,v_proj", "k_proj,v_proj,down_proj", usual_norms},
    {"mixtral", "q_proj,v_proj", {}, {}},
    {"opt", "q_proj,v_proj", "q_proj,k_proj,fc2", {}},
    {"phi", "q_proj,v_proj,fc1,fc2", "q_proj,v_proj,fc2", "input_layernorm,final_layernorm"},
    {"qwen2", "q_proj,v_proj", "q_proj,v_proj,down_proj", "post_attention_layernorm"},
    {"qwen3", "q_proj,v_proj", "q_proj,v_proj,down_proj", "post_attention_layernorm"},
    {"stablelm", "q_proj,v_proj", {}, {}},
};

constexpr std::string_view without_adalora[] = {"falcon", "mistral", "mixtral", "phi", "stablelm"};

const Targets* of(std::string_view family) {
  const auto* const found = std::find_if(std::begin(targets), std::end(targets),
                                         [&](const Targets& t) { return t.family == family; });
  return found != std::end(targets) ? found : nullptr;
}

}  // namespace

std::span<const AdapterMethodRow> adapter_methods() { return methods; }

const AdapterMethodRow& row(AdapterMethod method) {
  return *std::find_if(std::begin(methods), std::end(methods),
                       [&](const AdapterMethodRow& r) { return r.method == method; });
}

std::string_view default_targets(AdapterMethod method, std::string_view family) {
  const Targets* found = of(family);
  if (found == nullptr) return {};
  switch (method) {
    case AdapterMethod::ia3:
      return found->ia3;
    case AdapterMethod::ln_tuning:
      return found->norms;
    case AdapterMethod::adalora:
      if (family == "opt") return "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
      return std::find(std::begin(without_adalora), std::end(without_adalora), family) ==
                     std::end(without_adalora)
                 ? found->lora
                 : std::string_view{};
    case AdapterMethod::vera:  // with few changes
      return family == "phi" ? "q_proj,v_proj" : found->lora;
    default:
      return found->lora;
  }
}

// TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING: in each family the last.
std::string_view feedforward_targets(std::string_view family) {
  const std::string_view all = default_targets(AdapterMethod::ia3, family);
  return all.substr(all.rfind(',') + 1);
}

}  // namespace model

std::int64_t Adapters::prompt_tokens() const {
  return method == AdapterMethod::prompt_tuning || method == AdapterMethod::p_tuning ? size : 0;
}

std::int64_t Adapters::prefix_tokens() const {
  return method == AdapterMethod::prefix_tuning ? size : 0;
}

}  // namespace ac_advisor
