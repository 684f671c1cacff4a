// What a user reads when a configuration is wrong: file, field, value and the way out.
#include <doctest/doctest.h>

#include "config_text.hpp"

using namespace ac_advisor;
using test::error_of;
using test::small_config;

namespace {

// The error after one field of the small llama has been replaced.
std::string with(const std::string& field, const nlohmann::json& value,
                 const std::string& family = "llama") {
  auto config = small_config(family);
  config[field] = value;
  return error_of(config);
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a missing field is named with what it may be") {
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "vocab_size"}) {
    auto config = small_config("llama");
    config.erase(field);
    CHECK(contains(error_of(config), std::string("llama.json: \"") + field +
                                         "\" is missing; expected an integer from 1 to "));
  }
}

TEST_CASE("a misspelt field is recognised, a needed one and one that has a default") {
  auto config = small_config("llama");
  config.erase("hidden_size");
  config["hiden_size"] = 64;
  CHECK(error_of(config) ==
        "llama.json: \"hiden_size\" is not a known field; did you mean \"hidden_size\"?");
  config = small_config("llama");
  config.erase("num_key_value_heads");
  config["num_key_value_head"] = 2;
  CHECK(error_of(config) ==
        "llama.json: \"num_key_value_head\" is not a known field; did you mean "
        "\"num_key_value_heads\"?");
  CHECK(contains(with("tie_word_embedings", true), "did you mean \"tie_word_embeddings\"?"));
  CHECK(contains(with("haed_dim", 16), "did you mean \"head_dim\"?"));
}

TEST_CASE("fields that only resemble one are left alone") {
  auto config = small_config("llama");
  for (const char* field : {"bos_token_id", "end_token_id", "_sliding_window_pattern", "use_cache",
                            "pretraining_tp", "initializer_range"})
    config[field] = 1;
  config["v_head_dim"] = nullptr;  // known, and not "head_dim"
  CHECK(error_of(config) == "");
}

TEST_CASE("a wrong type is named") {
  CHECK(contains(
      with("hidden_size", "64"),
      "llama.json: \"hidden_size\": \"64\" is not an integer; expected an integer from 1"));
  CHECK(contains(with("hidden_size", 64.5), "\"hidden_size\": 64.5 is not an integer"));
  CHECK(contains(with("hidden_size", true), "\"hidden_size\": true is not an integer"));
  CHECK(contains(with("hidden_size", {64}), "\"hidden_size\": (a list) is not an integer"));
  CHECK(contains(with("hidden_size", nullptr), "\"hidden_size\": null is no size"));
  CHECK(contains(with("tie_word_embeddings", "yes"), "\"yes\" is not a boolean; expected true or"));
  CHECK(contains(with("rms_norm_eps", "1e-5"), "\"1e-5\" is not a number"));
  CHECK(contains(with("rope_scaling", 3), "\"rope_scaling\": 3 is not an object"));
  CHECK(contains(with("model_type", 3), "\"model_type\": 3 is not a string"));
  CHECK(contains(with("layer_types", "full_attention", "qwen2"), "is not a list"));
}

TEST_CASE("zero, negative and enormous sizes are refused with the range") {
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "vocab_size"}) {
    CAPTURE(field);
    CHECK(contains(with(field, 0), std::string("\"") + field + "\": 0 is not a size; expected"));
    CHECK(contains(with(field, -8), "-8 is negative; expected an integer from 1 to"));
    CHECK(contains(with(field, std::int64_t{1} << 40), "1099511627776 is too large; expected"));
    CHECK(contains(with(field, std::uint64_t{1} << 63), "is too large; expected"));
    CHECK(contains(with(field, 1e300), "is too large; expected"));
  }
  CHECK(contains(with("sliding_window", 0, "mistral"), "\"sliding_window\": 0 is not a size"));
}

TEST_CASE("sizes that are possible alone and enormous together are refused") {
  auto config = small_config("mixtral");
  config["hidden_size"] = config["intermediate_size"] = 1 << 24;
  config["num_local_experts"] = 1 << 16;  // 3 * 2^24 * 2^24 * 2^16 = 2^65.6 elements
  CHECK(contains(error_of(config), "\"hidden_size\" 16777216"));
  CHECK(contains(error_of(config), "make more than 1125899906842624 parameters"));
  config = small_config("qwen3");
  config["num_attention_heads"] = config["num_key_value_heads"] = 1 << 16;
  config["head_dim"] = 1 << 16;
  CHECK(contains(error_of(config), "\"num_attention_heads\": 65536 times head_dim 65536"));
}

TEST_CASE("heads that do not divide are named with the nearest that do") {
  auto config = small_config("llama");
  config["hidden_size"] = 2048;
  config["num_attention_heads"] = 33;
  CHECK(error_of(config) ==
        "llama.json: \"num_attention_heads\": 33 does not divide \"hidden_size\" 2048; nearest "
        "divisor: 32 or 64");
  config["head_dim"] = 64;  // LlamaConfig checks it all the same
  CHECK(contains(error_of(config), "33 does not divide"));
  CHECK(contains(with("num_key_value_heads", 3),
                 "\"num_key_value_heads\": 3 does not divide \"num_attention_heads\" 4; nearest "
                 "divisor: 2"));
  CHECK(contains(with("num_key_value_heads", 8), "8 does not divide \"num_attention_heads\" 4"));
  CHECK(
      contains(with("head_dim", 15), "gives heads of 15 elements; rotary embeddings need an even"));
}

TEST_CASE("numbers that are not finite, or out of range") {
  const auto raw = [](const std::string& value) {
    const std::string text = small_config("llama").dump();
    return error_of(text.substr(0, text.size() - 1) + ",\"rms_norm_eps\":" + value + "}");
  };
  CHECK(contains(raw("1e999"), "is not a finite number"));
  CHECK(contains(raw("NaN"), "JSON has no NaN and no Infinity"));
  CHECK(contains(raw("-Infinity"), "JSON has no NaN and no Infinity"));
  CHECK_FALSE(contains(raw("Infinity"), "JSON has no"));  // Python writes it: a number, if no size
  CHECK(contains(raw("-1"), "\"rms_norm_eps\": -1 is out of range; expected a number from 0 to 1"));
  CHECK(contains(with("attention_dropout", 1.5), "\"attention_dropout\": 1.5 is out of range"));
  CHECK(contains(with("rope_theta", 0), "\"rope_theta\": 0 is out of range"));
}

TEST_CASE("text that is not a JSON object") {
  CHECK(error_of("") == "llama.json: the file is empty; give a config.json");
  CHECK(error_of("[1, 2]") ==
        "llama.json: the JSON is not an object; a configuration starts with {");
  CHECK(contains(error_of("{\n  \"hidden_size\": 20"),
                 "llama.json: line 2, column 20: the JSON ends too early; is the file truncated?"));
  CHECK(contains(error_of("{\n  \"hidden_si"), "line 2, column 13: the JSON ends too early"));
  CHECK(contains(error_of("{\n\"a\": 1,\n  oops}"), "line 3, column 3: not valid JSON near"));
  CHECK(contains(error_of(std::string("\x1f\x8b\x08\0\0", 5)), "line 1, column 1: not UTF-8 text"));
  CHECK(contains(error_of("{\"name\": \"\xff\xfe\"}"), "not UTF-8 text"));
}

TEST_CASE("deep nesting and a flood of values stop early") {
  const std::string deep = "nested deeper than 64 levels";
  CHECK(contains(error_of("{\"a\": " + std::string(10'000'000, '[')), deep));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(contains(error_of(objects), deep));
  std::string flood = "{\"a\": [0";
  for (int i = 0; i < 1'000'000; ++i) flood += ",0";
  CHECK(contains(error_of(flood + "]}"), "more than 262144 values"));
}

TEST_CASE("an unknown architecture lists the known ones and the way around") {
  const std::string known =
      "is not planned yet (planned: arcee, baichuan, bloom, cohere, cohere2, deepseek_v2, "
      "deepseek_v3, dots1, ernie4_5, ernie4_5_moe, exaone4, falcon, gemma, gemma2, "
      "gemma3_text, glm, glm4, glm4_moe, glm4_moe_lite, gpt2, gpt_neox, gpt_oss, gptj, "
      "granite, granitemoe, granitemoeshared, helium, hunyuan_v1_dense, hunyuan_v1_moe, "
      "internlm2, llama, llama4_text, minicpm, minimax_m2, ministral3, mistral, mixtral, "
      "nemotron, olmo2, olmo3, olmoe, opt, phi, phi3, phimoe, qwen2, qwen2_5_vl_text, "
      "qwen2_moe, qwen3, qwen3_5_moe_text, qwen3_5_text, qwen3_moe, qwen3_next, "
      "qwen3_vl_text, seed_oss, smollm3, stablelm, "
      "starcoder2)";
  const std::string capture =
      "; plan, advise, explain and check capture it with transformers (--capture auto)";
  CHECK(with("model_type", "codegen") == "llama.json: \"model_type\": \"codegen\" " + known +
                                             "; it has LayerNorm and an MLP without a gate" +
                                             capture);
  CHECK(with("model_type", "bert") ==
        "llama.json: \"model_type\": \"bert\" " + known + "; it is an encoder" + capture);
  CHECK(with("model_type", "our_model") == "llama.json: \"model_type\": \"our_model\" " + known +
                                               "; if its blocks are llama's, read it --as llama" +
                                               capture);
  CHECK(contains(with("model_type", "lama"), "; did you mean \"llama\"?"));
  auto config = small_config("llama");
  config.erase("model_type");
  CHECK(contains(error_of(config), "\"model_type\" is missing; expected one of arcee, "));
  CHECK(error_of(config, "llama") == "");
  CHECK(contains(error_of(config, "lamma"), "--as \"lamma\": not a known family (known: arcee, "));
}

TEST_CASE("values that a family cannot mean") {
  CHECK(contains(with("hidden_act", "relu"),
                 "\"hidden_act\": \"relu\" is not known; known: \"silu\", \"gelu_pytorch_tanh\""));
  CHECK(contains(with("pad_token_id", 512), "\"pad_token_id\": 512 is outside the vocabulary"));
  CHECK(contains(with("num_experts_per_tok", 9, "mixtral"), "9 is more than the 8 experts"));
  CHECK(contains(with("num_experts", 4, "mixtral"), "\"num_experts_per_tok\"") == false);
  CHECK(contains(with("layer_types", {"full_attention"}, "gemma2"),
                 "has 1 entries, \"num_hidden_layers\" is 4"));
  CHECK(contains(
      with("layer_types", {"full_attention", "full_attention", "chunked_attention", 3}, "gemma2"),
      "has the entry \"chunked_attention\"; known: \"full_attention\""));
  CHECK(contains(with("layer_types", std::vector<std::string>(4, "sliding_attention"), "qwen3"),
                 "has \"sliding_attention\", but \"use_sliding_window\" is not true"));
  CHECK(contains(with("sliding_window", nullptr, "gemma2"), "null is no window, but some blocks"));
  CHECK(contains(with("mlp_only_layers", {-1}, "qwen3_moe"), "has the entry -1; expected indices"));
  CHECK(contains(with("partial_rotary_factor", 0.01, "phi3"), "leaves nothing of the 16 elements"));
}

TEST_CASE("what is not modelled is refused by name") {
  CHECK(contains(with("use_bidirectional_attention", true, "gemma3_text"), "is not modelled yet"));
  CHECK(contains(with("output_router_logits", true, "glm4_moe"), "expected false"));
  CHECK(contains(with("output_router_logits", true, "llama4_text"), "expected false"));
  CHECK(contains(with("resid_pdrop", 0.1, "phi3"), "dropout outside attention; expected 0"));
}

TEST_CASE("text of the file cannot reach the terminal as control codes") {
  const std::string error = with("model_type", "\x1b[2J\n" + std::string(1000, 'x'));
  CHECK(error.find('\x1b') == std::string::npos);
  CHECK(error.find('\n') == std::string::npos);
  CHECK(contains(error, "\\x1b[2J\\x0a"));
  CHECK(!contains(error, std::string(100, 'x')));
}
