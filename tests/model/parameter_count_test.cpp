#include <doctest/doctest.h>

#include <fstream>
#include <limits>

#include "config_text.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
using test::parse;
using test::small_config;

TEST_CASE("every sample's parameter count is the published one") {
  std::ifstream file(std::string(test::source_dir) + "/sample_models/parameter_counts.json");
  const auto published = nlohmann::json::parse(file);
  CHECK(published.size() == model::sample_names().size());
  for (const std::string& name : model::sample_names()) {
    CAPTURE(name);
    REQUIRE(published.contains(name));
    CHECK(model::parameter_count(model::load_model(name)) == published[name]["parameters"]);
  }
}

// Of the small configuration: q and o 64*4*16, k and v 64*2*16, gate, up and down 64*160.
constexpr std::int64_t block_matrices = 2 * 64 * 4 * 16 + 2 * 64 * 2 * 16 + 3 * 64 * 160;
constexpr std::int64_t table = 512 * 64;

TEST_CASE("a tied head counts once, an untied one is a second table") {
  auto config = small_config("llama");
  const std::int64_t rest = 4 * (block_matrices + 2 * 64) + 64;
  CHECK(model::parameter_count(parse(config)) == 2 * table + rest);
  config["tie_word_embeddings"] = true;
  CHECK(model::parameter_count(parse(config)) == table + rest);
}

TEST_CASE("llama: attention_bias is on all four projections, mlp_bias on all three") {
  auto config = small_config("llama");
  const std::int64_t plain = model::parameter_count(parse(config));
  config["attention_bias"] = true;
  CHECK(model::parameter_count(parse(config)) == plain + 4 * ((4 + 2 + 2) * 16 + 64));
  config["mlp_bias"] = true;
  CHECK(model::parameter_count(parse(config)) ==
        plain + 4 * ((4 + 2 + 2) * 16 + 64 + 2 * 160 + 64));
}

TEST_CASE("qwen2 has biases on q, k and v alone, qwen3 has two norms over a head of 128") {
  CHECK(model::parameter_count(parse(small_config("qwen2"))) ==
        2 * table + 4 * (block_matrices + 2 * 64 + (4 + 2 + 2) * 16) + 64);
  const std::int64_t wide = 2 * 64 * 4 * 128 + 2 * 64 * 2 * 128 + 3 * 64 * 160;
  CHECK(model::parameter_count(parse(small_config("qwen3"))) ==
        2 * table + 4 * (wide + 2 * 64 + 2 * 128) + 64);
}

TEST_CASE("gemma's blocks have four norms, and the head is tied") {
  auto config = small_config("gemma2");
  config["head_dim"] = 16;
  CHECK(model::parameter_count(parse(config)) == table + 4 * (block_matrices + 4 * 64) + 64);
}

TEST_CASE("phi3's fused projections hold what the separate ones hold") {
  CHECK(model::parameter_count(parse(small_config("phi3"))) ==
        model::parameter_count(parse(small_config("llama"))));
}

TEST_CASE("experts count in sparse blocks only, with their router") {
  auto config = small_config("qwen3_moe");
  config["num_experts"] = 6;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 32;
  config["decoder_sparse_step"] = 2;  // blocks 1 and 3
  config["mlp_only_layers"] = {3};    // leaves block 1
  const std::int64_t attention = 2 * 64 * 4 * 16 + 2 * 64 * 2 * 16 + 2 * 16;
  CHECK(model::parameter_count(parse(config)) ==
        2 * table + 4 * (attention + 2 * 64) + 3 * (3 * 64 * 160) + 6 * (64 + 3 * 64 * 32) + 64);
}

TEST_CASE("families of further shapes have the parameters of transformers' own modules") {
  // Counted from the modules on the meta device; the first five are published models' sizes.
  const auto sized = [](const char* family, std::int64_t hidden, std::int64_t intermediate,
                        std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                        std::int64_t vocab, bool tied) {
    return nlohmann::json{{"model_type", family},
                          {"hidden_size", hidden},
                          {"vocab_size", vocab},
                          {"intermediate_size", intermediate},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", heads},
                          {"num_key_value_heads", kv_heads},
                          {"tie_word_embeddings", tied}};
  };
  auto gemma = sized("gemma", 3072, 24576, 28, 16, 16, 256000, true);
  gemma["head_dim"] = 256;
  CHECK(model::parameter_count(parse(gemma)) == 8'537'680'896);
  CHECK(model::parameter_count(parse(sized("granite", 4096, 12800, 40, 32, 8, 49155, true))) ==
        8'170'848'256);
  CHECK(model::parameter_count(parse(sized("smollm3", 2048, 11008, 36, 16, 4, 128256, true))) ==
        3'075'098'624);
  CHECK(model::parameter_count(parse(sized("olmo2", 4096, 11008, 32, 32, 32, 100352, false))) ==
        7'298'617'344);
  CHECK(model::parameter_count(parse(sized("olmo3", 4096, 11008, 32, 32, 32, 100278, false))) ==
        7'298'011'136);
  CHECK(model::parameter_count(parse(sized("olmoe", 2048, 1024, 16, 16, 16, 50304, false))) ==
        6'919'161'856);
}

TEST_CASE("a count beyond 64 bits is an error, not a number") {
  model::ModelSpec spec;
  spec.name = "enormous";
  spec.vocab = spec.hidden = spec.layers = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(static_cast<void>(model::parameter_count(spec)), UserError);
}
