// A wrapper's encoder of images is counted. Expected counts are those of transformers 5.23.0's own
// modules, built on the meta device from the same configurations.
#include <doctest/doctest.h>

#include "ac_advisor/model/image_size.hpp"
#include "config_text.hpp"

using namespace ac_advisor;
using test::error_of;
using test::parse;

namespace {

// google/gemma-3-27b-it's sizes; "vocab_size" is Gemma3TextConfig's own.
nlohmann::json gemma3_27b() {
  return {{"model_type", "gemma3"},
          {"text_config",
           {{"model_type", "gemma3_text"},
            {"hidden_size", 5376},
            {"intermediate_size", 21504},
            {"num_attention_heads", 32},
            {"num_key_value_heads", 16},
            {"head_dim", 128},
            {"num_hidden_layers", 62},
            {"query_pre_attn_scalar", 168},
            {"sliding_window", 1024}}},
          {"vision_config",
           {{"model_type", "siglip_vision_model"},
            {"hidden_size", 1152},
            {"intermediate_size", 4304},
            {"num_hidden_layers", 27},
            {"num_attention_heads", 16},
            {"image_size", 896},
            {"patch_size", 14},
            {"vision_use_head", false}}}};
}

nlohmann::json llava() {
  return {{"model_type", "llava"},
          {"text_config", {{"model_type", "llama"}, {"vocab_size", 32064}}},
          {"vision_config",
           {{"model_type", "clip_vision_model"},
            {"hidden_size", 1024},
            {"intermediate_size", 4096},
            {"num_hidden_layers", 24},
            {"num_attention_heads", 16},
            {"image_size", 336},
            {"patch_size", 14}}}};
}

nlohmann::json mistral_small() {
  return {{"model_type", "mistral3"},
          {"text_config",
           {{"model_type", "mistral"},
            {"hidden_size", 5120},
            {"intermediate_size", 32768},
            {"num_attention_heads", 32},
            {"num_key_value_heads", 8},
            {"head_dim", 128},
            {"num_hidden_layers", 40},
            {"sliding_window", nullptr},
            {"vocab_size", 131072}}},
          {"vision_config", {{"model_type", "pixtral"}, {"hidden_size", 1024}}}};
}

}  // namespace

TEST_CASE("gemma3: decoder, SigLIP and projector make the published 27 432 406 640 parameters") {
  const auto spec = parse(gemma3_27b());
  CHECK(spec.vocab == 262208);
  CHECK(model::parameter_count(spec) == 27'432'406'640);
  CHECK(model::tower_parameter_count(spec) == 27'432'406'640 - 27'009'346'304);
  auto config = gemma3_27b();
  config["vision_config"] = {{"model_type", "siglip_vision_model"}, {"hidden_size", 1152}};
  CHECK(model::parameter_count(parse(config)) == 27'177'850'112);  // with its pooling head
}

TEST_CASE("llava: the published 7 063 427 072 parameters, its decoder a llama of absent fields") {
  CHECK(model::parameter_count(parse(llava())) == 7'063'427'072);
  auto config = llava();
  config["text_config"].erase("model_type");
  CHECK(parse(config).family == "llama");
  config.erase("vision_config");  // LlavaConfig's own
  CHECK(model::parameter_count(parse(config)) == 7'063'427'072);
  // Two layers' features: the projector's first product is twice as wide.
  config["vision_feature_layer"] = {-2, -5};
  CHECK(model::parameter_count(parse(config)) == 7'063'427'072 + 1024 * 4096);
}

TEST_CASE("llava: how its encoder runs with images, where that is planned") {
  const auto run = parse(llava()).tower->run;
  REQUIRE(run);
  CHECK(model::image_tokens(*run, {}) == 576);  // (336 / 14)^2, without the class token
  CHECK(run->layers_read == 23);                // vision_feature_layer -2
  CHECK(run->sigmoid_gelu);                     // quick_gelu
  auto config = llava();
  config["vision_feature_layer"] = -1;
  config["vision_feature_select_strategy"] = "full";
  config["vision_config"]["hidden_act"] = "gelu";
  CHECK(parse(config).tower->run->layers_read == 24);
  CHECK(model::image_tokens(*parse(config).tower->run, {}) == 577);
  CHECK_FALSE(parse(config).tower->run->sigmoid_gelu);
  const auto planned = [](const char* field, const nlohmann::json& value) {
    auto other = llava();
    other[field] = value;
    return parse(other).tower->run.has_value();
  };
  CHECK_FALSE(planned("vision_feature_layer", {-2, -5}));
  CHECK_FALSE(planned("vision_feature_layer", 25));
  CHECK_FALSE(planned("vision_feature_layer", 0));
  CHECK_FALSE(planned("projector_hidden_act", "silu"));
  CHECK_FALSE(planned("multimodal_projector_bias", false));
  CHECK_FALSE(planned("vision_feature_select_strategy", "cls"));
  config = llava();
  config["vision_config"]["attention_dropout"] = 0.1;
  CHECK_FALSE(parse(config).tower->run);
  CHECK_FALSE(parse(gemma3_27b()).tower->run);
}

TEST_CASE("qwen2_5_vl and qwen3_vl: an image has as many tokens as its sides have merged patches") {
  const auto run_of = [](const char* type) {
    return *parse({{"model_type", type},
                   {"text_config", {{"vocab_size", 32000}}},
                   {"vision_config", {{"hidden_size", 64}, {"num_heads", 4}, {"depth", 27}}}})
                .tower->run;
  };
  const auto tokens = [](const model::TowerRun& run, std::int64_t height, std::int64_t width) {
    ModelRun of;
    of.images = 2;
    of.image_height = height;
    of.image_width = width;
    CHECK(model::image_tokens_of_sequence(run, of) == 2 * (model::image_tokens(run, of) + 2));
    return model::image_tokens(run, of);
  };
  const model::TowerRun second = run_of("qwen2_5_vl"), third = run_of("qwen3_vl");
  CHECK(tokens(second, 448, 672) == 16 * 24);
  CHECK(tokens(second, 461, 463) == 16 * 17);  // 16.46 and 16.54 patches of 28
  CHECK(tokens(second, 42, 70) == 2 * 2);      // 1.5 and 2.5, half to even
  CHECK(tokens(second, 1, 13) == 1);
  CHECK(tokens(third, 448, 672) == 14 * 21);
  CHECK(second.whole_layers == std::vector<std::int64_t>{7, 15, 23, 31});
  CHECK(second.window == 112);
  CHECK(third.taps == std::vector<std::int64_t>{8, 16, 24});
}

TEST_CASE("a wrapper's older file, decoder's fields beside its own, has its encoder planned") {
  nlohmann::json config = test::small_config("qwen2_5_vl");
  config["vision_config"] = {{"depth", 4}};
  const model::ModelSpec m = parse(config);
  REQUIRE(m.tower);
  CHECK(m.tower->run->layers == 4);
  for (const std::string& warning : model::reading_warnings(m))
    CHECK(warning.find("vision_config") == std::string::npos);
}

TEST_CASE("mistral3: the wrapper says whether the head is tied, its class says yes") {
  CHECK(model::parameter_count(parse(mistral_small())) == 23'340'456'960);
  auto config = mistral_small();
  config["tie_word_embeddings"] = false;
  CHECK(model::parameter_count(parse(config)) == 23'340'456'960 + 5120LL * 131072);
}

TEST_CASE("a wrapper or an encoder that cannot be counted is refused, not planned without") {
  const auto refused = [](nlohmann::json config, const char* why) {
    const std::string error = error_of(config);
    CAPTURE(error);
    CHECK(error.find(why) != std::string::npos);
    CHECK(error.find("save the object \"text_config\" as a config.json of its own") !=
          std::string::npos);
  };
  auto config = gemma3_27b();
  config["vision_config"]["model_type"] = "our_vit";
  refused(config, "\"vision_config.model_type\": \"our_vit\" is an encoder that is not planned");
  config = gemma3_27b();
  config["audio_config"] = {{"hidden_size", 1}};
  refused(config, "\"audio_config\": (an object) is an encoder that is not planned");
  // GotOcr2Config and MossTranscribeDiarizeConfig make an encoder where the file has none.
  for (const char* wrapper : {"got_ocr2", "moss_transcribe_diarize", "our_wrapper"}) {
    config = {{"model_type", wrapper}, {"text_config", {{"model_type", "qwen2"}}}};
    refused(config,
            "wraps its text model with encoders that are not planned (planned wrappers: "
            "gemma3, llama4, llava, mistral3, qwen2_5_vl, qwen3_5, qwen3_5_moe, qwen3_vl)");
  }
  config.erase("model_type");
  refused(config, "\"model_type\" is missing: the file wraps its text model");
  config = gemma3_27b()["text_config"];
  config["vocab_size"] = 262208;
  CHECK(model::parameter_count(parse(config)) == 27'009'346'304);  // the way out
}

TEST_CASE("sizes of an encoder are checked like the decoder's") {
  auto config = gemma3_27b();
  config["vision_config"]["num_hidden_layers"] = -1;
  CHECK(error_of(config).find("\"vision_config.num_hidden_layers\": -1 is negative") !=
        std::string::npos);
  config = gemma3_27b();
  config["vision_config"]["num_attention_heads"] = 7;
  CHECK(error_of(config).find("\"vision_config.num_attention_heads\": 7 does not go with") !=
        std::string::npos);
  config = gemma3_27b();
  config["vision_config"]["patch_size"] = 1000;
  CHECK(error_of(config).find("is larger than an image of 896 pixels") != std::string::npos);
}
