// No field of a configuration is ignored without a word: those that change shapes or ops refuse it,
// the others are listed.
#include <doctest/doctest.h>

#include <algorithm>

#include "config_text.hpp"

using namespace ac_advisor;
using test::error_of;
using test::parse;
using test::small_config;

namespace {

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

bool has(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

std::string as_llama(const std::string& field, const nlohmann::json& value,
                     const std::string& model_type = "ours") {
  auto config = small_config(model_type);
  config[field] = value;
  return error_of(config, "llama");
}

}  // namespace

TEST_CASE(
    "a field that changes shapes or ops, and that the family does not read, refuses the plan") {
  const std::pair<const char*, nlohmann::json> fields[] = {
      {"n_routed_experts", 64},
      {"num_experts", 64},
      {"num_local_experts", 8},
      {"kv_lora_rank", 512},
      {"q_lora_rank", 1536},
      {"norm_epsilon", 1e-5},
      {"layer_norm_eps", 1e-5},
      {"is_encoder_decoder", true},
      {"embedding_multiplier", 12.0},
      {"residual_multiplier", 0.2},
      {"logits_scaling", 16.0},
      {"attention_multiplier", 0.01},
      {"logit_scale", 0.0625},
      {"scale_emb", 12},
      {"use_bias", true},
      {"no_rope_layers", {1, 0}},
      {"attention_chunk_size", 64},
      {"sliding_window", 128},
      {"layer_types", {"linear_attention"}},
      {"use_qk_norm", true},
      {"rope_parameters", {{"partial_rotary_factor", 0.5}}},
      {"resid_pdrop", 0.1},
      {"partial_rotary_factor", 0.5},
      {"is_causal", false},
  };
  for (const auto& [bound_name, value] : fields) {
    const auto& name = bound_name;
    CAPTURE(name);
    CHECK(contains(as_llama(name, value), "changes shapes or ops ("));
  }
  CHECK(as_llama("n_routed_experts", 64) ==
        "llama.json: \"n_routed_experts\": 64 changes shapes or ops (experts), and llama does not "
        "read it; expected null, or the field left out");
  CHECK(contains(as_llama("residual_multiplier", 0.2), "expected 1, or the field left out"));
}

TEST_CASE("published configurations of the families read without a complaint") {
  // Fields that their config.json files have beyond those of the samples.
  const std::pair<const char*, nlohmann::json> files[] = {
      {"gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}}},
      {"gemma2",
       {{"hidden_act", "gelu_pytorch_tanh"},
        {"sliding_window_size", 4096},
        {"cache_implementation", "hybrid"}}},
      {"gemma3_text", {{"attn_logit_softcapping", nullptr}, {"sliding_window_pattern", 6}}},
      {"llama", {{"is_llama_config", true}, {"rope_interleaved", false}, {"pretraining_tp", 1}}},
      {"olmoe", {{"clip_qkv", nullptr}, {"norm_topk_prob", false}}},
      {"phi3", {{"embd_pdrop", 0.0}, {"full_attn_mod", 1}, {"lm_head_bias", false}}},
      {"qwen2", {{"use_mrope", false}, {"sliding_window", 131072}, {"max_window_layers", 28}}},
      {"qwen3_moe", {{"decoder_sparse_step", 1}, {"mlp_only_layers", nlohmann::json::array()}}},
      {"smollm3", {{"max_window_layers", 28}, {"use_sliding_window", false}}},
  };
  for (const auto& [bound_family, fields] : files) {
    const auto& family = bound_family;
    CAPTURE(family);
    auto config = small_config(family);
    config.update(fields);
    REQUIRE(error_of(config) == "");
    CHECK(model::reading_warnings(parse(config)).empty());
  }
}

TEST_CASE("a neutral value of such a field changes nothing, and is listed") {
  auto config = small_config("ours");
  config.update({{"n_routed_experts", nullptr},
                 {"is_encoder_decoder", false},
                 {"residual_multiplier", 1.0},
                 {"no_rope_layers", {1, 1, 1, 1}},
                 {"layer_types", std::vector<std::string>(4, "full_attention")},
                 {"sliding_window", 4096},
                 {"use_sliding_window", false},
                 {"use_bias", false}});
  REQUIRE(error_of(config, "llama") == "");
  const auto spec = parse(config, "llama");
  CHECK(spec.reading.ignored.size() == 8);
  CHECK(has(spec.reading.ignored, "residual_multiplier"));
  CHECK(spec.reading.unknown.empty());
}

TEST_CASE("--as takes no model_type that is known to be something else") {
  // What 0.1.0 planned as llama: 2.6 of 15.7 B parameters, an encoder, …
  for (const char* type : {"dbrx", "deepseek_v32", "gemma3n_text", "codegen", "bert", "t5", "mamba",
                           "persimmon", "qwen3_vl_moe_text"}) {
    CAPTURE(type);
    CHECK(contains(error_of(small_config(type), "llama"), "modelling code of its own for"));
  }
  CHECK(contains(error_of(small_config("dbrx"), "llama"),
                 "is \"dbrx\", which transformers has modelling code of its own for; it has "
                 "experts; as llama it would be planned wrong"));
  CHECK(error_of(small_config("gemma2"), "llama") ==
        "--as llama: llama.json is of the family gemma2, which is known; leave --as out");
  CHECK(error_of(small_config("llama"), "llama") == "");
  CHECK_FALSE(parse(small_config("llama"), "llama").reading.as);
}

TEST_CASE("the error for an unknown architecture recommends --as only where that is taken") {
  auto config = small_config("ours");
  CHECK(contains(error_of(config), "; if its blocks are llama's, read it --as llama"));
  config["n_routed_experts"] = 64;
  CHECK(contains(error_of(config), "; --as llama would not do: \"n_routed_experts\": 64 changes"));
  config.erase("model_type");
  CHECK(contains(error_of(config), "--as llama would not do: \"n_routed_experts\""));
}

TEST_CASE("another architecture is never offered as a typing error") {
  for (const char* type : {"gemma5", "gemma3n_text", "gemma4_text", "phi", "phimoe", "qwen2_moe",
                           "qwen3_next", "llama4", "mpt", "opt", "ministral", "glm4", "olmo",
                           "qwen4", "gemma5_text", "phi5", "llama5"})
    CHECK_FALSE(contains(error_of(small_config(type)), "did you mean"));
  CHECK(contains(error_of(small_config("lama")), "; did you mean \"llama\"?"));
  CHECK(contains(error_of(small_config("mistrall")), "; did you mean \"mistral\"?"));
  CHECK(contains(error_of(small_config("qwen3moe")), "; did you mean \"qwen3_moe\"?"));
}

TEST_CASE("harmless fields are one line, fields that nothing is known of a warning") {
  auto config = small_config("ours");
  config["bos_token_id"] = 1;
  config["initializer_range"] = 0.02;
  config["our_own_flag"] = true;
  const auto spec = parse(config, "llama");
  CHECK(spec.reading.as);
  CHECK(model::reading_note(spec) == "parsed as llama; no effect: bos_token_id, initializer_range");
  CHECK(model::reading_warnings(spec) ==
        std::vector<std::string>{"unknown fields, assumed to have no effect: \"our_own_flag\""});
  CHECK(model::reading_note(parse(small_config("ours"), "llama")) ==
        "parsed as llama; no effect: nothing");
  CHECK(model::reading_note(parse(small_config("llama"))) == "");
}

TEST_CASE("a flood of unknown fields is listed by its first ones, without control codes") {
  auto config = small_config("llama");
  for (int i = 0; i < 1000; ++i) config["zz_\x1b" + std::to_string(i)] = i;
  const std::string warning = model::reading_warnings(parse(config)).front();
  CHECK(contains(warning, " and 960 more"));
  CHECK(warning.find('\x1b') == std::string::npos);
}

TEST_CASE("what the file says and the plan does not follow is told once each") {
  const auto warning = [](const std::string& field, const nlohmann::json& value) {
    auto config = small_config("llama");
    config[field] = value;
    const auto all = model::reading_warnings(parse(config));
    return all.size() == 1 ? all.front() : "";
  };
  CHECK(contains(warning("rope_scaling", {{"type", "spiral"}, {"factor", 2.0}}),
                 "the rope type \"spiral\" is not known (known: default, linear, dynamic, yarn"));
  CHECK(warning("rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}) == "");
  CHECK(contains(warning("quantization_config", {{"quant_method", "gptq"}}),
                 "quantization_config (\"gptq\"): the published weights are quantized"));
  CHECK(contains(warning("architectures", {"LlamaForSequenceClassification"}),
                 "names \"LlamaForSequenceClassification\": the step is planned with the head"));
  CHECK(warning("architectures", {"LlamaForCausalLM"}) == "");
  CHECK(contains(warning("mm_vision_tower", "openai/clip-vit-large-patch14-336"),
                 "mm_vision_tower is of an encoder that the class of this model_type does not "
                 "have: the language model alone is planned"));
  CHECK(contains(warning("dual_chunk_attention_config", {{"chunk_size", 262144}}),
                 "\"dual_chunk_attention_config\" is of other programs"));
}

TEST_CASE(
    "what transformers' own class of the family does not read changes nothing, and is listed") {
  auto starcoder = small_config("starcoder2");
  // bigcode's files have both names; Starcoder2DecoderLayer reads norm_epsilon alone.
  starcoder["norm_epsilon"] = starcoder["layer_norm_epsilon"] = 1e-5;
  starcoder["norm_type"] = "layer_norm";
  const model::ModelSpec read = parse(starcoder);
  CHECK(has(read.reading.ignored, "layer_norm_epsilon"));
  CHECK(has(read.reading.ignored, "norm_type"));
  // Ministral-8B's: MistralConfig warns of layer_types and reads none.
  auto mistral = small_config("mistral");
  mistral["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(has(parse(mistral).reading.ignored, "layer_types"));
  auto qwen = small_config("qwen2");
  const model::ModelSpec plain = parse(qwen);
  qwen["num_local_experts"] = 8;
  CHECK(parse(qwen) == plain);
}

TEST_CASE("of remote code nothing is known, so a field that changes shapes somewhere refuses it") {
  auto config = small_config("mistral");
  config["num_local_experts"] = 8;
  CHECK(error_of(config).empty());
  config["auto_map"] = {{"AutoModelForCausalLM", "modeling_other.Other"}};
  CHECK(contains(error_of(config), "changes shapes or ops (experts)"));
}
