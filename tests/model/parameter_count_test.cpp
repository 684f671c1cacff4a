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

TEST_CASE("families of other norms, MLPs and positions have the published models' parameters") {
  const auto count = [](const char* family, nlohmann::json fields) {
    fields["model_type"] = family;
    return model::parameter_count(parse(fields));
  };
  const auto sized = [](std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                        std::int64_t heads, std::int64_t vocab) {
    return nlohmann::json{{"hidden_size", hidden},
                          {"intermediate_size", intermediate},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", heads},
                          {"vocab_size", vocab}};
  };
  CHECK(count("cohere", sized(8192, 22528, 40, 64, 256000)) == 34'980'831'232);  // command-r-v01
  nlohmann::json config = sized(4096, 13696, 40, 32, 151552);                    // GLM-4-9B-0414
  config["num_key_value_heads"] = 2;
  config["head_dim"] = 128;
  CHECK(count("glm4", config) == 9'400'279'040);
  CHECK(count("glm", config) == 9'399'951'360);  // glm-4-9b-chat-hf: two norms a block
  config = sized(4096, 10944, 46, 96, 151552);   // GLM-4.5-Air
  config["num_key_value_heads"] = 8;
  config["head_dim"] = 128;
  config["attention_bias"] = true;
  // The published count has the corrections of 45 blocks' 128 scores, which are buffers.
  CHECK(count("glm4_moe", config) == 106'852'251'264 - 45 * 128);
  CHECK(count("gpt2", {{"n_embd", 768}, {"n_layer", 12}, {"n_head", 12}, {"vocab_size", 50257}}) ==
        124'439'808);
  CHECK(count("gpt_neox", sized(2048, 8192, 24, 16, 50304)) == 1'414'647'808);  // pythia-1.4b
  config = sized(2048, 0, 24, 32, 50272);                                       // opt-1.3b
  config.erase("intermediate_size");
  config["ffn_dim"] = 8192;
  CHECK(count("opt", config) == 1'315'758'080);
  CHECK(count("phi", sized(2560, 10240, 32, 32, 51200)) == 2'779'683'840);  // phi-2
  config = sized(2048, 5632, 24, 16, 151936);                               // Qwen1.5-MoE-A2.7B
  CHECK(count("qwen2_moe", config) == 14'315'784'192);
  config = sized(2048, 5632, 24, 32, 100352);  // stablelm-2-1.6b
  config["use_qkv_bias"] = true;
  CHECK(count("stablelm", config) == 1'644'515'328);
  config = sized(4608, 18432, 32, 36, 49152);  // starcoder2-7b
  config["num_key_value_heads"] = 4;
  CHECK(count("starcoder2", config) == 7'173'923'840);
  config = sized(3072, 9216, 32, 24, 256000);  // Minitron-4B: "4.19 B"
  config["num_key_value_heads"] = 8;
  config["head_dim"] = 128;
  CHECK(count("nemotron", config) == 4'190'509'056);
}

TEST_CASE("latent attention, biased experts and encoders of images: the published parameters") {
  const auto count = [](const char* family, nlohmann::json fields) {
    fields["model_type"] = family;
    return model::parameter_count(parse(fields));
  };
  nlohmann::json lite{
      {"hidden_size", 2048},           {"intermediate_size", 10944}, {"num_hidden_layers", 27},
      {"num_attention_heads", 16},     {"q_lora_rank", nullptr},     {"vocab_size", 102400},
      {"moe_intermediate_size", 1408}, {"n_routed_experts", 64},     {"n_shared_experts", 2},
      {"num_experts_per_tok", 6},      {"first_k_dense_replace", 1}};
  CHECK(count("deepseek_v2", lite) == 15'706'484'224);  // DeepSeek-V2-Lite
  // DeepSeek-V3, with the class's defaults but for these; without the layer that predicts a further
  // token and without the corrections of 58 blocks' 256 scores, which are buffers.
  const nlohmann::json v3{{"hidden_size", 7168},
                          {"intermediate_size", 18432},
                          {"num_hidden_layers", 61},
                          {"num_attention_heads", 128},
                          {"vocab_size", 129280}};
  CHECK(count("deepseek_v3", v3) == 671'026'419'200 - 58 * 256);
  const nlohmann::json oss{{"hidden_size", 2880},     {"intermediate_size", 2880},
                           {"num_hidden_layers", 24}, {"num_attention_heads", 64},
                           {"num_local_experts", 32}, {"vocab_size", 201088}};
  CHECK(count("gpt_oss", oss) == 20'914'757'184);  // gpt-oss-20b
  // Qwen2.5-VL-7B, with its encoder of 676,550,144
  const nlohmann::json text{{"model_type", "qwen2_5_vl_text"},
                            {"hidden_size", 3584},
                            {"intermediate_size", 18944},
                            {"num_hidden_layers", 28},
                            {"num_attention_heads", 28},
                            {"num_key_value_heads", 4},
                            {"vocab_size", 152064}};
  const nlohmann::json vision{{"hidden_size", 1280}, {"out_hidden_size", 3584}};
  nlohmann::json flat = text;
  flat["vision_config"] = vision;
  CHECK(count("qwen2_5_vl", flat) == 8'292'166'656);
  CHECK(count("qwen2_5_vl", {{"text_config", text}, {"vision_config", vision}}) == 8'292'166'656);
  CHECK(count("internlm2", {{"hidden_size", 4096},
                            {"intermediate_size", 14336},
                            {"num_hidden_layers", 32},
                            {"num_attention_heads", 32},
                            {"num_key_value_heads", 8},
                            {"vocab_size", 92544}}) == 7'737'708'544);  // InternLM2.5-7B
  CHECK(count("minicpm", {{"hidden_size", 2304},
                          {"intermediate_size", 5760},
                          {"num_hidden_layers", 40},
                          {"num_attention_heads", 36},
                          {"vocab_size", 122753}}) == 2'724'880'896);  // MiniCPM-2B
}

TEST_CASE("bloom, falcon, gptj, phimoe: the published parameters") {
  const auto count = [](const char* family, nlohmann::json fields) {
    fields["model_type"] = family;
    return model::parameter_count(parse(fields));
  };
  CHECK(count("bloom", {{"n_embed", 4096},
                        {"n_layer", 30},
                        {"num_attention_heads", 32},
                        {"vocab_size", 250880}}) == 7'069'016'064);  // bloom-7b1
  CHECK(count("falcon", {{"hidden_size", 4544},
                         {"num_hidden_layers", 32},
                         {"num_attention_heads", 71},
                         {"vocab_size", 65024}}) == 6'921'720'704);  // falcon-7b
  CHECK(count("gptj", {{"n_embd", 4096}, {"n_layer", 28}, {"n_head", 16}, {"vocab_size", 50400}}) ==
        6'050'882'784);  // gpt-j-6b
  CHECK(count("phimoe", {{"hidden_size", 4096},
                         {"intermediate_size", 6400},
                         {"num_hidden_layers", 32},
                         {"num_attention_heads", 32},
                         {"num_key_value_heads", 8},
                         {"vocab_size", 32064},
                         {"attention_bias", true},
                         {"lm_head_bias", true}}) == 41'873'153'344);  // Phi-3.5-MoE
}

TEST_CASE("llama4 and baichuan: the published parameters, and those of transformers' modules") {
  const auto count = [](const char* family, nlohmann::json fields) {
    fields["model_type"] = family;
    return model::parameter_count(parse(fields));
  };
  nlohmann::json text{{"hidden_size", 5120},           {"intermediate_size", 8192},
                      {"num_hidden_layers", 48},       {"num_attention_heads", 40},
                      {"num_key_value_heads", 8},      {"vocab_size", 202048},
                      {"intermediate_size_mlp", 16384}};
  CHECK(count("llama4_text", text) == 107'769'861'120);  // Llama-4-Scout's decoder
  const nlohmann::json vision{
      {"hidden_size", 1408}, {"image_size", 336}, {"vision_output_dim", 4096}};
  // with its encoder and adapter, 850,960,896, and the projector, 4096 x 5120
  CHECK(count("llama4", {{"text_config", text}, {"vision_config", vision}}) == 108'641'793'536);
  CHECK(count("llama4", {{"text_config", text}}) == 108'225'039'360);  // the class's own encoder
  text["num_local_experts"] = 128;
  text["interleave_moe_layer_step"] = 2;
  CHECK(count("llama4_text", text) == 400'711'848'960);  // Llama-4-Maverick's
  // One block of four with six experts, counted from the modules on the meta device.
  CHECK(count("llama4_text", {{"hidden_size", 64},
                              {"intermediate_size", 160},
                              {"num_hidden_layers", 4},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"vocab_size", 512},
                              {"head_dim", 16},
                              {"intermediate_size_mlp", 192},
                              {"num_local_experts", 6},
                              {"moe_layers", {2}}}) == 441'280);
  nlohmann::json baichuan{{"hidden_size", 4096},
                          {"intermediate_size", 11008},
                          {"num_hidden_layers", 32},
                          {"num_attention_heads", 32},
                          {"vocab_size", 125696}};
  CHECK(count("baichuan", baichuan) == 7'505'973'248);  // Baichuan2-7B
  baichuan["vocab_size"] = 64000;
  CHECK(count("baichuan", baichuan) == 7'000'559'616);  // Baichuan-7B
}

TEST_CASE("qwen3_next: the published parameters, and transformers' of other sizes") {
  nlohmann::json config{{"model_type", "qwen3_next"}, {"hidden_size", 2048},
                        {"intermediate_size", 5120},  {"num_hidden_layers", 48},
                        {"num_attention_heads", 16},  {"num_key_value_heads", 2},
                        {"vocab_size", 151936}};
  CHECK(model::parameter_count(parse(config)) == 79'674'391'296);  // Qwen3-Next-80B-A3B
  config["num_hidden_layers"] = 4;
  config["intermediate_size"] = 5632;
  config["num_experts"] = 64;
  CHECK(model::parameter_count(parse(config)) == 1'569'188'928);
  config.update({{"num_hidden_layers", 3},
                 {"hidden_size", 1024},
                 {"num_attention_heads", 8},
                 {"head_dim", 128},
                 {"linear_num_value_heads", 16},
                 {"linear_key_head_dim", 64},
                 {"linear_value_head_dim", 96},
                 {"num_experts", 16},
                 {"num_experts_per_tok", 4},
                 {"mlp_only_layers", {0}},
                 {"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
                 {"vocab_size", 32000}});
  CHECK(model::parameter_count(parse(config)) == 153'753'088);
}

TEST_CASE("qwen3_5 and qwen3_5_moe: transformers' parameters, text alone and beside the encoder") {
  const auto count = [](const nlohmann::json& config) {
    return model::parameter_count(parse(config));
  };
  nlohmann::json dense{{"model_type", "qwen3_5_text"}, {"hidden_size", 4096},
                       {"intermediate_size", 12288},   {"num_hidden_layers", 32},
                       {"num_attention_heads", 16},    {"vocab_size", 248320}};
  CHECK(count(dense) == 8'953'803'264);  // Qwen3.5-9B's
  dense.update({{"hidden_size", 5120},
                {"intermediate_size", 17408},
                {"num_hidden_layers", 64},
                {"num_attention_heads", 24},
                {"linear_num_value_heads", 48}});
  CHECK(count(dense) == 26'895'998'464);  // Qwen3.5-27B's
  CHECK(count({{"model_type", "qwen3_5"},
               {"text_config", dense},
               {"vision_config", {{"out_hidden_size", 5120}}}}) == 27'356'728'560);
  dense.update({{"hidden_size", 512},
                {"intermediate_size", 1024},
                {"num_hidden_layers", 5},
                {"num_attention_heads", 8},
                {"num_key_value_heads", 2},
                {"head_dim", 64},
                {"vocab_size", 151936},
                {"linear_num_key_heads", 8},
                {"linear_num_value_heads", 24},
                {"linear_key_head_dim", 96},
                {"tie_word_embeddings", true},
                {"layer_types", std::vector<std::string>(5, "linear_attention")}});
  CHECK(count(dense) == 113'402'224);
  nlohmann::json sparse{{"model_type", "qwen3_5_moe_text"}, {"hidden_size", 2048},
                        {"num_hidden_layers", 40},          {"num_attention_heads", 16},
                        {"num_key_value_heads", 2},         {"vocab_size", 248320},
                        {"moe_intermediate_size", 512}};
  CHECK(count(sparse) == 34'660'610'688);
  CHECK(count({{"model_type", "qwen3_5_moe"},
               {"text_config", sparse},
               {"vision_config", {{"out_hidden_size", 2048}}}}) == 35'107'181'936);
  sparse.update({{"hidden_size", 1024},
                 {"num_hidden_layers", 8},
                 {"num_attention_heads", 8},
                 {"head_dim", 64},
                 {"linear_num_key_heads", 4},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 64},
                 {"tie_word_embeddings", true},
                 {"attention_bias", true},
                 {"num_experts", 16},
                 {"num_experts_per_tok", 4},
                 {"moe_intermediate_size", 256},
                 {"shared_expert_intermediate_size", 768}});
  CHECK(count(sparse) == 390'306'352);
}

TEST_CASE("a count beyond 64 bits is an error, not a number") {
  model::ModelSpec spec;
  spec.name = "enormous";
  spec.vocab = spec.hidden = spec.layers = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(static_cast<void>(model::parameter_count(spec)), UserError);
}

TEST_CASE("families that differ from others by a fact have their classes' parameters") {
  // transformers 5.23.0's own classes on the meta device
  const auto count = [](const char* family, const nlohmann::json& more) {
    nlohmann::json config = small_config(family);
    config.update(more);
    return model::parameter_count(parse(config));
  };
  CHECK(count("seed_oss", {{"mlp_bias", true}, {"attention_out_bias", true}}) == 588'096);
  CHECK(count("exaone4", nlohmann::json::object()) == 238'272);
  CHECK(count("ernie4_5", {{"use_bias", true}}) == 555'328);
  CHECK(count("hunyuan_v1_dense", {{"head_dim", 16}}) == 238'272);
  CHECK(count("arcee", {{"mlp_bias", true}}) == 198'080);
  CHECK(count("helium", {{"attention_bias", true}}) == 238'656);
  CHECK(count("dots1", {{"n_shared_experts", 2},
                        {"moe_intermediate_size", 48},
                        {"first_k_dense_replace", 1}}) == 424'128);
  CHECK(count("glm4_moe_lite", {{"n_routed_experts", 8},
                                {"num_experts_per_tok", 2},
                                {"moe_intermediate_size", 48}}) == 7'774'272);
  CHECK(count("minimax_m2",
              {{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"head_dim", 16}}) ==
        1'100'736);
  CHECK(count("granitemoe", nlohmann::json::object()) == 1'100'352);
  CHECK(count("granitemoeshared", {{"shared_intermediate_size", 96}}) == 1'174'080);
  CHECK(count("ernie4_5_moe",
              {{"moe_num_experts", 8}, {"moe_k", 2}, {"moe_intermediate_size", 48}}) == 391'256);
  CHECK(count("hunyuan_v1_moe", {{"num_experts", 8}, {"moe_topk", 2}, {"head_dim", 16}}) ==
        1'223'360);
}

TEST_CASE(
    "Seed-OSS-36B, EXAONE-4.0-32B, AFM-4.5B and others: their classes' parameters at these sizes") {
  const auto count = [](const char* family, nlohmann::json fields) {
    fields["model_type"] = family;
    return model::parameter_count(parse(fields));
  };
  const auto sized = [](std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                        std::int64_t heads, std::int64_t kv_heads, std::int64_t vocab) {
    return nlohmann::json{{"hidden_size", hidden},           {"intermediate_size", intermediate},
                          {"num_hidden_layers", layers},     {"num_attention_heads", heads},
                          {"num_key_value_heads", kv_heads}, {"vocab_size", vocab}};
  };
  CHECK(count("seed_oss", sized(5120, 27648, 64, 80, 8, 155136)) == 36'151'104'512);
  CHECK(count("exaone4", sized(5120, 27392, 64, 40, 8, 102400)) == 32'003'216'384);
  CHECK(count("ernie4_5", sized(1024, 3072, 18, 16, 2, 103424)) == 360'748'032);
  CHECK(count("arcee", sized(2560, 18432, 36, 20, 4, 128004)) == 4'619'184'640);
  CHECK(count("glm4_moe_lite", sized(2048, 10240, 47, 20, 20, 154880)) == 29'943'390'976);
  CHECK(count("minimax_m2", sized(3072, 1536, 62, 48, 8, 200064)) == 228'689'748'992);
  CHECK(count("ernie4_5_moe", sized(2560, 12288, 28, 20, 4, 103424)) == 21'825'437'888);
}
