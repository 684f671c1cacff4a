// The expected facts are those of transformers 5.23.0: configuration_<family>.py,
// modeling_<family>.py.
#include <doctest/doctest.h>

#include <algorithm>

#include <fstream>

#include "config_text.hpp"

using namespace ac_advisor;
using model::Activation;
using test::error_of;
using test::parse;
using test::small_config;
using Windows = std::vector<std::int64_t>;

TEST_CASE("the families are listed in alphabetical order") {
  CHECK(model::known_families() == std::vector<std::string>{"arcee",
                                                            "baichuan",
                                                            "bloom",
                                                            "cohere",
                                                            "cohere2",
                                                            "deepseek_v2",
                                                            "deepseek_v3",
                                                            "dots1",
                                                            "ernie4_5",
                                                            "ernie4_5_moe",
                                                            "exaone4",
                                                            "falcon",
                                                            "gemma",
                                                            "gemma2",
                                                            "gemma3_text",
                                                            "glm",
                                                            "glm4",
                                                            "glm4_moe",
                                                            "glm4_moe_lite",
                                                            "gpt2",
                                                            "gpt_neox",
                                                            "gpt_oss",
                                                            "gptj",
                                                            "granite",
                                                            "granitemoe",
                                                            "granitemoeshared",
                                                            "helium",
                                                            "hunyuan_v1_dense",
                                                            "hunyuan_v1_moe",
                                                            "internlm2",
                                                            "llama",
                                                            "llama4_text",
                                                            "minicpm",
                                                            "minimax_m2",
                                                            "ministral3",
                                                            "mistral",
                                                            "mixtral",
                                                            "nemotron",
                                                            "olmo2",
                                                            "olmo3",
                                                            "olmoe",
                                                            "opt",
                                                            "phi",
                                                            "phi3",
                                                            "phimoe",
                                                            "qwen2",
                                                            "qwen2_5_vl_text",
                                                            "qwen2_moe",
                                                            "qwen3",
                                                            "qwen3_5_moe_text",
                                                            "qwen3_5_text",
                                                            "qwen3_moe",
                                                            "qwen3_next",
                                                            "qwen3_vl_text",
                                                            "seed_oss",
                                                            "smollm3",
                                                            "stablelm",
                                                            "starcoder2"});
}

TEST_CASE("every family reads its smallest configuration") {
  for (const std::string& family : model::known_families()) {
    CAPTURE(family);
    const auto spec = parse(small_config(family));
    CHECK(spec.family == family);
    CHECK(spec.layers == 4);
    CHECK(spec.window.size() == 4);
    CHECK((spec.max_positions == 0) ==
          (spec.position_table == 0 && spec.rotation != model::Rotation::table));
    if (spec.norm != model::Norm::rms ||
        (family.starts_with("glm") && !spec.moe)) {  // have a case of their own
      CHECK(spec.rms_norm_eps == (family.starts_with("glm") ? 1.5625e-7 : 1e-5));
      continue;
    }
    const std::int64_t rotated = spec.latent ? spec.latent->rotated_dim : spec.head_dim;
    const std::int64_t share = family == "glm4_moe" ? 2 : spec.gated_attention ? 4 : 1;
    CHECK(spec.rotary_dim == rotated / share);
    CHECK(spec.activation == (family.starts_with("gemma") ? Activation::gelu_tanh
                              : family == "arcee"         ? Activation::relu2
                                                          : Activation::silu));
    CHECK(spec.tied_embeddings == (family.starts_with("gemma") || family == "smollm3" ||
                                   family == "minicpm" || family.starts_with("ernie")));
    const std::vector<std::string> mixtures{"dots1",      "glm4_moe_lite",   "granitemoeshared",
                                            "minimax_m2", "mixtral",         "gpt_oss",
                                            "qwen3_next", "qwen3_5_moe_text"};
    CHECK(spec.moe.has_value() ==
          (family.ends_with("moe") || family.starts_with("deepseek") ||
           std::find(mixtures.begin(), mixtures.end(), family) != mixtures.end()));
    if (family == "helium") continue;  // 1e-8
    const std::vector<std::string> wider{
        "phi3",          "mixtral", "glm4_moe",      "gpt_oss",  "ministral3",   "qwen2_5_vl_text",
        "arcee",         "exaone4", "glm4_moe_lite", "ernie4_5", "ernie4_5_moe", "hunyuan_v1_dense",
        "hunyuan_v1_moe"};
    const bool wider_eps =
        family.starts_with("olmo") || std::find(wider.begin(), wider.end(), family) != wider.end();
    CHECK(spec.rms_norm_eps == (wider_eps ? 1e-5 : 1e-6));
  }
}

TEST_CASE("an absent num_key_value_heads is the family's number, a null one that of heads") {
  auto config = small_config("mistral");
  config["num_attention_heads"] = 16;
  config.erase("num_key_value_heads");
  CHECK(parse(config).kv_heads == 8);
  config["num_key_value_heads"] = nullptr;
  CHECK(parse(config).kv_heads == 16);
  config["model_type"] = "llama";
  config.erase("num_key_value_heads");
  CHECK(parse(config).kv_heads == 16);
}

TEST_CASE("head_dim is hidden / heads unless the family has a number of its own") {
  CHECK(parse(small_config("llama")).head_dim == 16);
  CHECK(parse(small_config("qwen3_moe")).head_dim == 16);
  CHECK(parse(small_config("qwen3")).head_dim == 128);
  CHECK(parse(small_config("gemma2")).head_dim == 256);
  auto config = small_config("mistral");
  config["head_dim"] = 32;
  CHECK(parse(config).head_dim == 32);
}

TEST_CASE(
    "qwen3 with a head_dim of its own takes heads that do not divide hidden, as transformers") {
  auto config = small_config("qwen3");
  config["num_attention_heads"] = 6;
  CHECK(parse(config).heads == 6);
}

TEST_CASE("mistral: an absent window is 4096, null is none, phi3 and mixtral have none") {
  auto config = small_config("mistral");
  CHECK(parse(config).window == Windows(4, 4096));
  config["sliding_window"] = nullptr;
  CHECK(parse(config).window == Windows(4, 0));
  CHECK(parse(small_config("phi3")).window == Windows(4, 0));
  CHECK(parse(small_config("mixtral")).window == Windows(4, 0));
  config["model_type"] = "phi3";
  config["sliding_window"] = 2047;
  CHECK(parse(config).window == Windows(4, 2047));
}

TEST_CASE("qwen2: use_sliding_window windows the blocks from max_window_layers on") {
  auto config = small_config("qwen2");
  config["sliding_window"] = 100;
  config["max_window_layers"] = 3;
  CHECK(parse(config).window == Windows(4, 0));
  config["use_sliding_window"] = true;
  CHECK(parse(config).window == Windows{0, 0, 0, 100});
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "full_attention"};
  CHECK(parse(config).window == Windows{100, 0, 0, 0});
  config["model_type"] = "qwen3_moe";  // all blocks or none there
  config.erase("layer_types");
  CHECK(parse(config).window == Windows(4, 100));
}

TEST_CASE("gemma2 alternates windows, soft-caps both scores and logits, and has no sdpa") {
  auto config = small_config("gemma2");
  auto spec = parse(config);
  CHECK(spec.window == Windows{4096, 0, 4096, 0});
  CHECK(spec.attention_softcap == 50.0);
  CHECK(spec.final_softcap == 30.0);
  CHECK(spec.eager_attention_only);
  CHECK(spec.rotary_tables == 1);
  config["attn_logit_softcapping"] = nullptr;
  config["final_logit_softcapping"] = 20;
  spec = parse(config);
  CHECK_FALSE(spec.attention_softcap.has_value());
  CHECK(spec.final_softcap == 20.0);
  CHECK(spec.eager_attention_only);
}

TEST_CASE("gemma3: every sixth block is global, two rotary tables where both kinds occur") {
  auto config = small_config("gemma3_text");
  config["sliding_window"] = 512;
  CHECK(parse(config).window == Windows(4, 512));
  CHECK(parse(config).rotary_tables == 1);
  config["num_hidden_layers"] = 7;
  CHECK(parse(config).window == Windows{512, 512, 512, 512, 512, 0, 512});
  CHECK(parse(config).rotary_tables == 2);
  config["sliding_window_pattern"] = 2;
  config["num_hidden_layers"] = 3;
  CHECK(parse(config).window == Windows{512, 0, 512});
  const auto spec = parse(config);
  CHECK(spec.qk_norm);
  CHECK(spec.sandwich_norms);
  CHECK(spec.unit_offset_norm);
  CHECK(spec.scaled_embedding);
  CHECK_FALSE(spec.eager_attention_only);
  CHECK_FALSE(spec.final_softcap.has_value());
}

TEST_CASE("a multimodal wrapper's text_config is read, its absent sizes are the family's") {
  // gemma-3-4b-it's config.json, as published
  const nlohmann::json config = {
      {"architectures", {"Gemma3ForConditionalGeneration"}},
      {"model_type", "gemma3"},
      {"text_config",
       {{"hidden_size", 2560},
        {"intermediate_size", 10240},
        {"model_type", "gemma3_text"},
        {"num_hidden_layers", 34},
        {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
        {"sliding_window", 1024}}},
      {"vision_config", {{"hidden_size", 1152}, {"model_type", "siglip_vision_model"}}}};
  const auto spec = parse(config);
  CHECK(spec.family == "gemma3_text");
  CHECK(spec.heads == 8);
  CHECK(spec.kv_heads == 4);
  CHECK(spec.vocab == 262208);
  CHECK(spec.rope_theta == 1e6);
  auto bad = config;
  bad["text_config"]["num_hidden_layers"] = -1;
  CHECK(error_of(bad).find("\"text_config.num_hidden_layers\": -1 is negative") !=
        std::string::npos);
}

TEST_CASE("phi3: fused projections, partial rotation rounded up to an even size") {
  auto config = small_config("phi3");
  CHECK(parse(config).fused_qkv);
  CHECK(parse(config).fused_gate_up);
  config["partial_rotary_factor"] = 0.75;
  CHECK(parse(config).rotary_dim == 12);
  config["partial_rotary_factor"] = 0.7;  // int(11.2) = 11, twice the 6 frequencies
  CHECK(parse(config).rotary_dim == 12);
}

TEST_CASE("gemma: gemma2's norms and activation, two norms a block, no soft caps") {
  auto config = small_config("gemma");
  const auto spec = parse(config);
  CHECK(spec.head_dim == 256);
  CHECK(spec.unit_offset_norm);
  CHECK(spec.scaled_embedding);
  CHECK_FALSE(spec.sandwich_norms);
  CHECK_FALSE(spec.eager_attention_only);
  config["hidden_act"] = "gelu";  // as published: its approximation is meant
  config["hidden_activation"] = nullptr;
  CHECK(parse(config).activation == Activation::gelu_tanh);
}

TEST_CASE("olmo2 has norms after attention and MLP alone and over whole q and k") {
  const auto spec = parse(small_config("olmo2"));
  CHECK(spec.post_norms_only);
  CHECK(spec.qk_norm_whole);
  CHECK(spec.wide_norm_scale);
  CHECK(spec.wide_rotary);
  const auto newer = parse(small_config("olmo3"));
  CHECK(newer.window == Windows{4096, 4096, 4096, 0});
  CHECK(newer.rotary_tables == 2);
  CHECK(newer.rope_theta == 500000.0);
  CHECK_FALSE(parse(small_config("olmoe")).post_norms_only);
  CHECK(parse(small_config("olmoe")).qk_norm_whole);
}

TEST_CASE("olmoe's experts are as wide as its MLP, and their weights normalized where it says so") {
  auto config = small_config("olmoe");
  CHECK(*parse(config).moe == model::MoeSpec{64, 8, 160, false});
  config["norm_topk_prob"] = true;
  CHECK(parse(config).moe->normalize_top_k);
}

TEST_CASE("granite's four multipliers are 1 where they are absent") {
  auto config = small_config("granite");
  CHECK(parse(config).embedding_multiplier == 1.0);
  CHECK(parse(config).attention_scale == 1.0);
  config.update({{"embedding_multiplier", 12.0},
                 {"residual_multiplier", 0.22},
                 {"logits_scaling", 16.0},
                 {"attention_multiplier", 0.0078125}});
  const auto spec = parse(config);
  CHECK(spec.embedding_multiplier == 12.0);
  CHECK(spec.residual_multiplier == 0.22);
  CHECK(spec.logits_divisor == 16.0);
  CHECK(spec.attention_scale == 0.0078125);
  CHECK_FALSE(parse(small_config("llama")).embedding_multiplier.has_value());
}

TEST_CASE("smollm3: every fourth block has no rotary embeddings, or those that are named") {
  auto config = small_config("smollm3");
  CHECK(parse(config).unrotated_block == std::vector<bool>{false, false, false, true});
  config["no_rope_layer_interval"] = 2;
  CHECK(parse(config).unrotated_block == std::vector<bool>{false, true, false, true});
  config["use_sliding_window"] = true;  // the blocks without rotary embeddings have it
  config["sliding_window"] = 32;
  CHECK(parse(config).window == Windows{0, 32, 0, 32});
  config["no_rope_layers"] = {0, 1, 1, 1};
  CHECK(parse(config).unrotated_block == std::vector<bool>{true, false, false, false});
  CHECK(parse(config).window == Windows{32, 0, 0, 0});
  config["no_rope_layers"] = {1, 2, 1, 1};
  CHECK(error_of(config).find("has the entry 2; expected 1 (rotated) or 0") != std::string::npos);
  config["no_rope_layers"] = {1};
  CHECK(error_of(config).find("has 1 entries, \"num_hidden_layers\" is 4") != std::string::npos);
}

TEST_CASE("rope_theta: transformers 5's rope_parameters, the older field, the default") {
  auto config = small_config("llama");
  CHECK(parse(config).rope_theta == 10000.0);
  CHECK(parse(small_config("mixtral")).rope_theta == 1e6);
  config["rope_theta"] = 500000;
  CHECK(parse(config).rope_theta == 500000.0);
  config["rope_parameters"] = {{"rope_theta", 2e6}, {"rope_type", "default"}};
  CHECK(parse(config).rope_theta == 2e6);
}

TEST_CASE(
    "qwen3_next has gated delta nets in all blocks but every fourth, or as layer_types says") {
  auto config = small_config("qwen3_next");
  auto spec = parse(config);
  CHECK(spec.delta == model::DeltaNet{16, 32, 128, 128, 4});
  CHECK(spec.delta_block == std::vector<bool>{true, true, true, false});
  CHECK(spec.gated_attention);
  CHECK(spec.moe->normalize_top_k);
  config["full_attention_interval"] = 2;
  config["linear_num_key_heads"] = 8;
  spec = parse(config);
  CHECK(spec.delta_block == std::vector<bool>{true, false, true, false});
  CHECK(spec.delta->key_heads == 8);
  config["layer_types"] = {"full_attention", "full_attention", "linear_attention",
                           "full_attention"};
  CHECK(parse(config).delta_block == std::vector<bool>{false, false, true, false});
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  CHECK_FALSE(parse(config).delta.has_value());
  config["layer_types"][1] = "sliding_attention";
  CHECK(error_of(config).find("has the entry \"sliding_attention\"") != std::string::npos);
  config = small_config("qwen3_next");
  config["linear_num_key_heads"] = 5;
  CHECK(error_of(config).find("\"linear_num_key_heads\": 5 does not divide the 32 heads") !=
        std::string::npos);
}

TEST_CASE("qwen3_5 reads its text alone and in its wrapper, layers for further tokens unread") {
  auto text = small_config("qwen3_5_text");
  text.update({{"attn_output_gate", true},
               {"mamba_ssm_dtype", "float32"},
               {"mlp_only_layers", nlohmann::json::array()},
               {"mtp_num_hidden_layers", 1},
               {"mtp_use_dedicated_embeddings", false},
               {"full_attention_interval", 2},
               {"rope_parameters",
                {{"rope_type", "default"},
                 {"rope_theta", 1e7},
                 {"partial_rotary_factor", 0.5},
                 {"mrope_interleaved", true},
                 {"mrope_section", {11, 11, 10}}}}});
  auto spec = parse(text);
  CHECK(spec.delta_block == std::vector<bool>{true, false, true, false});
  CHECK(spec.position_grids == model::PositionGrids::woven);
  CHECK(spec.gated_attention);
  CHECK(spec.rotary_dim == 128);
  CHECK(spec.rope_theta == 1e7);
  CHECK_FALSE(spec.moe.has_value());
  CHECK(spec.reading.unknown.empty());
  const nlohmann::json vision{{"model_type", "qwen3_5"},
                              {"out_hidden_size", 64},
                              {"deepstack_visual_indexes", nlohmann::json::array()}};
  spec = parse({{"model_type", "qwen3_5"}, {"text_config", text}, {"vision_config", vision}});
  CHECK(spec.family == "qwen3_5_text");
  REQUIRE(spec.tower.has_value());
  CHECK_FALSE(spec.tower->run.has_value());
  CHECK(spec.reading.unknown.empty());
  auto sparse = small_config("qwen3_5_moe_text");
  sparse.erase("intermediate_size");
  sparse.update({{"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 48},
                 {"shared_expert_intermediate_size", 96}});
  spec = parse(sparse);
  REQUIRE(spec.moe.has_value());
  CHECK(spec.moe->intermediate == 48);
  CHECK(spec.moe->shared_intermediate == 96);
  CHECK(spec.moe->shared_gate);
  CHECK(spec.moe->normalize_top_k);
  CHECK(spec.sparse_block == std::vector<bool>(4, true));
}

TEST_CASE("mixtral's experts are as wide as its MLP, qwen3_moe says how wide and where") {
  auto config = small_config("mixtral");
  auto spec = parse(config);
  model::MoeSpec mixtral{8, 2, 160, true, true};
  mixtral.megatron = model::MegatronExperts{
      .pre_softmax = true, .grouped = true, .all_to_all = true, .fused_permute = true};
  CHECK(*spec.moe == mixtral);
  CHECK(spec.sparse_block == std::vector<bool>(4, true));
  config = small_config("qwen3_moe");
  config["mlp_only_layers"] = {0};
  spec = parse(config);
  CHECK(*spec.moe == model::MoeSpec{128, 8, 768, false});
  CHECK(spec.sparse_block == std::vector<bool>{false, true, true, true});
  config["decoder_sparse_step"] = 9;  // no block has experts: a dense model
  CHECK_FALSE(parse(config).moe.has_value());
  CHECK(parse(config).sparse_block.empty());
}

TEST_CASE("pad_token_id counts from the vocabulary's end when negative, as nn.Embedding does") {
  auto config = small_config("llama");
  CHECK(parse(config).pad_token_id == -1);
  config["pad_token_id"] = -1;
  CHECK(parse(config).pad_token_id == 511);
  config["pad_token_id"] = 0;
  CHECK(parse(config).pad_token_id == 0);
}

TEST_CASE("--as reads an unknown architecture as a family, blocks that share keys are marked") {
  auto config = small_config("newest");
  config["num_kv_shared_layers"] = 2;
  const auto spec = parse(config, "llama");
  CHECK(spec.family == "llama");
  CHECK(spec.kv_sharing);
  CHECK_FALSE(parse(small_config("llama")).kv_sharing);
}

TEST_CASE("a repeated key's last value counts, as in Python") {
  const std::string text = small_config("llama").dump();
  const auto spec = model::parse_config(text.substr(0, text.size() - 1) + ",\"vocab_size\": 7}",
                                        "llama.json", "llama");
  CHECK(spec.vocab == 7);
}

TEST_CASE("families of other norms and MLPs: absent fields are the configuration class's") {
  struct Absent {
    const char* family;
    Activation activation;
    std::int64_t rotary_dim;  // of heads of 16
    bool tied, qkv_bias, output_bias, mlp_bias;
    double residual_dropout;
  };
  // configuration_<name>.py of transformers 5.23.0; nemotron and stablelm have mlp_bias false
  const Absent absent[] = {
      {"cohere", Activation::silu, 16, true, false, false, false, 0.0},
      {"cohere2", Activation::silu, 16, true, false, false, false, 0.0},
      {"gpt2", Activation::gelu_new, 0, true, true, true, true, 0.1},
      {"gpt_neox", Activation::gelu, 4, false, true, true, true, 0.0},
      {"nemotron", Activation::relu2, 8, false, false, false, false, 0.0},
      {"opt", Activation::relu, 0, true, true, true, true, 0.1},
      {"phi", Activation::gelu_new, 8, false, true, true, true, 0.0},
      {"stablelm", Activation::silu, 4, false, false, false, false, 0.0},
      {"starcoder2", Activation::gelu_tanh, 16, true, true, true, true, 0.0},
  };
  for (const Absent& a : absent) {
    CAPTURE(std::string(a.family));
    const auto spec = parse(small_config(a.family));
    CHECK(spec.activation == a.activation);
    CHECK(spec.rotary_dim == a.rotary_dim);
    CHECK(spec.tied_embeddings == a.tied);
    CHECK(spec.qkv_bias == a.qkv_bias);
    CHECK(spec.output_bias == a.output_bias);
    CHECK(spec.mlp_bias == a.mlp_bias);
    CHECK(spec.residual_dropout == a.residual_dropout);
  }
}

TEST_CASE("older names of a figure are read: rotary_pct and rotary_emb_base, n_embd and n_inner") {
  auto neox = small_config("gpt_neox");
  neox.update({{"rotary_pct", 0.5}, {"rotary_emb_base", 1000}, {"hidden_dropout", 0.2}});
  CHECK(parse(neox).rotary_dim == 8);
  CHECK(parse(neox).rope_theta == 1000);
  CHECK(parse(neox).residual_dropout == 0.2);
  neox["rope_parameters"] = {{"partial_rotary_factor", 1.0}, {"rope_theta", 10000}};
  CHECK(parse(neox).rotary_dim == 16);
  const nlohmann::json gpt2{{"model_type", "gpt2"}, {"n_embd", 64},      {"n_layer", 2},
                            {"n_head", 4},          {"vocab_size", 512}, {"n_positions", 128}};
  CHECK(parse(gpt2).hidden == 64);
  CHECK(parse(gpt2).intermediate == 256);
  CHECK(parse(gpt2).position_table == 128);
  CHECK(parse(small_config("opt")).position_table == 2050);
}

TEST_CASE("what such a family does not do is refused by its field") {
  const auto refused = [](const char* family, const char* field, const nlohmann::json& value) {
    auto config = small_config(family);
    config[field] = value;
    return error_of(config).find(std::string("\"") + field + "\"") != std::string::npos;
  };
  CHECK(refused("stablelm", "qk_layernorm", true));
  CHECK(refused("phi", "qk_layernorm", true));
  CHECK(refused("cohere", "use_qk_norm", true));
  CHECK(refused("gpt2", "add_cross_attention", true));
  CHECK(refused("gpt2", "reorder_and_upcast_attn", true));
  CHECK(refused("opt", "do_layer_norm_before", false));
  CHECK(refused("opt", "word_embed_proj_dim", 32));
  CHECK(refused("opt", "layer_norm_elementwise_affine", false));
  CHECK(refused("opt", "_remove_final_layer_norm", true));
  CHECK(refused("opt", "layerdrop", 0.1));
  CHECK(refused("stablelm", "hidden_dropout", 0.1));
  CHECK(refused("qwen2_moe", "use_sliding_window", true));
  CHECK(refused("starcoder2", "hidden_act", "quick_gelu"));
}

TEST_CASE("stablelm and gpt_neox say whether attention and MLP stand side by side") {
  auto config = small_config("stablelm");
  CHECK_FALSE(parse(config).side_by_side);
  config["use_parallel_residual"] = true;
  CHECK(parse(config).shared_norm);
  config["model_type"] = "gpt_neox";
  CHECK(parse(config).side_by_side);
  CHECK_FALSE(parse(config).shared_norm);
  config["use_parallel_residual"] = false;
  CHECK_FALSE(parse(config).side_by_side);
}

TEST_CASE("cohere2 rotates in the blocks that have a window") {
  const auto spec = parse(small_config("cohere2"));
  CHECK(spec.window == Windows{4096, 4096, 4096, 0});
  CHECK(spec.unrotated_block == std::vector<bool>{false, false, false, true});
}

TEST_CASE("glm4_moe: the first blocks are dense, and a shared expert is as wide as several") {
  auto config = small_config("glm4_moe");
  config.update({{"n_routed_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 48},
                 {"n_shared_experts", 2},
                 {"first_k_dense_replace", 3}});
  const auto spec = parse(config);
  CHECK(spec.sparse_block == std::vector<bool>{false, false, false, true});
  CHECK(spec.moe->experts == 8);
  CHECK(spec.moe->shared_intermediate == 96);
  CHECK(spec.moe->sigmoid_scores);
  CHECK_FALSE(spec.qk_norm);
  config["use_qk_norm"] = true;
  CHECK(parse(config).qk_norm);
  config["n_group"] = 2;
  CHECK(parse(config).moe->groups == 2);
  CHECK(parse(config).moe->top_groups == 1);
}

TEST_CASE("deepseek: heads of two parts, queries at once where q_lora_rank is null") {
  auto config = small_config("deepseek_v3");
  auto spec = parse(config);
  CHECK(spec.head_dim == 128 + 64);
  CHECK(spec.kv_heads == 4);  // one latent vector for all of them
  CHECK(spec.latent == model::LatentAttention{1536, 512, 128, 64, 128});
  CHECK(spec.moe->groups == 8);
  CHECK(spec.moe->top_groups == 4);
  CHECK(spec.moe->scaling == 2.5);
  CHECK(spec.sparse_block == std::vector<bool>{false, false, false, true});
  config["q_lora_rank"] = nullptr;
  CHECK(parse(config).latent->q_rank == 0);
  config["n_group"] = 3;
  CHECK(error_of(config).find("\"n_group\": 3 does not divide 256 experts") != std::string::npos);
  config["n_group"] = 8;
  config["rope_interleave"] = false;
  CHECK(error_of(config).find("\"rope_interleave\"") != std::string::npos);
  config = small_config("deepseek_v2");
  CHECK(parse(config).sparse_block == std::vector<bool>(4, true));
  config["topk_method"] = "group_limited_greedy";
  CHECK(error_of(config).find("experts chosen by groups") != std::string::npos);
  config.erase("topk_method");
  config.erase("num_experts_per_tok");
  CHECK(error_of(config).find("\"num_experts_per_tok\" is missing") != std::string::npos);
}

TEST_CASE("gpt_oss alternates windows, has eager attention with sinks and experts with biases") {
  const auto spec = parse(small_config("gpt_oss"));
  CHECK(spec.window == Windows{128, 0, 128, 0});
  CHECK(spec.attention_sinks);
  CHECK(spec.eager_attention_only);
  CHECK(spec.moe->biased);
  CHECK(spec.moe->softmax_of_top);
  CHECK(spec.moe->intermediate == 160);
}

TEST_CASE(
    "gpt_oss's files name a gate's numbers and another spelling that its code need not: read all "
    "the same") {
  auto config = small_config("gpt_oss");
  config["architectures"] = {"GptOssForCausalLM"};
  config["swiglu_limit"] = 7.0;
  config["swiglu_alpha"] = 1.702;
  config["experts_per_token"] = 4;
  CHECK(parse(config).moe->softmax_of_top);
}

TEST_CASE("falcon's decoders: what the queries' heads share, and which norms a block has") {
  nlohmann::json config{{"model_type", "falcon"},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 4544},
                        {"num_attention_heads", 71},
                        {"vocab_size", 65024}};
  auto spec = parse(config);
  CHECK(spec.kv_heads == 1);
  CHECK(spec.qkv_layout == model::QkvLayout::one_pair);
  CHECK(spec.side_by_side);
  CHECK(spec.shared_norm);
  config["multi_query"] = false;
  CHECK(parse(config).kv_heads == 71);
  CHECK(parse(config).qkv_layout == model::QkvLayout::by_head_apart);
  config["parallel_attn"] = false;
  CHECK_FALSE(parse(config).side_by_side);
  config["new_decoder_architecture"] = true;
  CHECK(error_of(config).find("\"parallel_attn\": false") != std::string::npos);
  config["parallel_attn"] = true;
  config["hidden_size"] = 8192;
  config["num_attention_heads"] = 128;
  config["num_kv_heads"] = 8;
  spec = parse(config);
  CHECK(spec.kv_heads == 8);
  CHECK(spec.qkv_layout == model::QkvLayout::grouped_repeated);
  CHECK_FALSE(spec.shared_norm);
  config["num_ln_in_parallel_attn"] = 1;
  CHECK(parse(config).shared_norm);
  for (const char* name : {"alibi", "bias"}) {
    auto other = config;
    other[name] = true;
    CHECK(error_of(other).find("is not modelled yet") != std::string::npos);
  }
}

TEST_CASE("bloom and gptj: sizes under older names, an even part of a head") {
  const auto bloom = parse({{"model_type", "bloom"},
                            {"n_embed", 128},
                            {"hidden_size", 64},
                            {"n_layer", 3},
                            {"num_attention_heads", 4},
                            {"vocab_size", 512}});
  CHECK(bloom.hidden == 128);
  CHECK(bloom.intermediate == 512);
  CHECK(bloom.layers == 3);
  CHECK(bloom.alibi);
  nlohmann::json config{{"model_type", "gptj"}, {"n_embd", 64},    {"n_head", 4},
                        {"n_layer", 2},         {"rotary_dim", 8}, {"vocab_size", 512}};
  CHECK(parse(config).max_positions == 2048);
  CHECK(parse(config).rotary_dim == 8);
  config["rotary_dim"] = 18;
  CHECK(error_of(config).find("even number of up to the 16 elements") != std::string::npos);
}

TEST_CASE("phimoe chooses two experts, whatever is asked for") {
  auto config = small_config("phimoe");
  config["lm_head_bias"] = true;
  config["input_jitter_noise"] = 0.01;
  const auto spec = parse(config);
  CHECK(spec.head_bias);
  CHECK(spec.moe->sparse_mixer);
  CHECK(spec.moe->input_jitter);
  config["num_experts_per_tok"] = 4;
  CHECK(error_of(config).find("expected 2") != std::string::npos);
}

TEST_CASE("llama4: each fourth block is not rotated and sees all, the others chunks") {
  auto config = small_config("llama4_text");
  auto spec = parse(config);
  CHECK(spec.attention_chunk == 8192);
  CHECK(spec.window == Windows{8192, 8192, 8192, 0});
  CHECK(spec.unrotated_block == std::vector<bool>{false, false, false, true});
  CHECK(spec.sparse_block == std::vector<bool>(4, true));
  CHECK(spec.moe->experts == 16);
  CHECK(spec.moe->intermediate == 160);
  CHECK(spec.moe->shared_intermediate == 160);
  CHECK(spec.intermediate == 192);  // of dense blocks
  CHECK(spec.unweighted_qk_norm);
  CHECK(spec.tuned_temperature);
  config["no_rope_layers"] = nlohmann::json::array();  // as published: none are listed
  CHECK(parse(config) == spec);
  config["no_rope_layers"] = {0, 1, 1, 1};
  config["interleave_moe_layer_step"] = 2;
  config["attention_chunk_size"] = 16;
  config["use_qk_norm"] = false;
  config["attn_temperature_tuning"] = false;
  spec = parse(config);
  CHECK(spec.window == Windows{0, 16, 16, 16});
  CHECK(spec.sparse_block == std::vector<bool>{false, true, false, true});
  CHECK_FALSE(spec.unweighted_qk_norm);
  CHECK_FALSE(spec.tuned_temperature);
  config["moe_layers"] = {2};
  CHECK(parse(config).sparse_block == std::vector<bool>{false, false, true, false});
  config["moe_layers"] = nlohmann::json::array();
  CHECK_FALSE(parse(config).moe.has_value());
  config["layer_types"] = {"chunked_attention", "full_attention", "full_attention",
                           "full_attention"};
  CHECK(parse(config).window == Windows{16, 0, 0, 0});
  config["layer_types"][1] = "sliding_attention";
  CHECK(error_of(config).find("known: \"full_attention\", \"chunked_attention\"") !=
        std::string::npos);
  config.erase("layer_types");
  config["moe_layers"] = {-1};
  CHECK(error_of(config).find("indices of blocks from 0 to 3") != std::string::npos);
  config.erase("moe_layers");
  config["attention_chunk_size"] = nullptr;
  CHECK(error_of(config).find("transformers makes no masks") != std::string::npos);
}

TEST_CASE("llama4's wrapper: its decoder, and its encoder with adapter and projector") {
  const nlohmann::json config{{"model_type", "llama4"},
                              {"text_config", small_config("llama4_text")},
                              {"vision_config", {{"hidden_size", 1408}, {"image_size", 336}}}};
  const auto spec = parse(config);
  CHECK(spec.family == "llama4_text");
  REQUIRE(spec.tower);
  CHECK(spec.tower->encoder == "llama4_vision_model");
}

TEST_CASE("baichuan: the second release divides the head's rows, the larger models are refused") {
  auto config = small_config("baichuan");
  config.erase("num_key_value_heads");
  auto spec = parse(config);
  CHECK(spec.kv_heads == 4);
  CHECK(spec.normalized_head);
  CHECK(spec.qkv_layout == model::QkvLayout::stacked);
  CHECK(spec.reading.warnings.front().find("transformers 5.23 has no code for baichuan") == 0);
  config["vocab_size"] = 64000;  // of Baichuan-7B
  CHECK_FALSE(parse(config).normalized_head);
  config["model_max_length"] = 4096;
  CHECK(error_of(config).find("(ALiBi)") != std::string::npos);
  config["max_position_embeddings"] = 4096;
  CHECK(error_of(config) == "");
  config["z_loss_weight"] = 0.0001;
  CHECK(error_of(config).find("\"z_loss_weight\"") != std::string::npos);
  config["z_loss_weight"] = 0;
  CHECK(error_of(config) == "");
}

TEST_CASE("qwen's wrappers: decoder and encoder, nested or flat") {
  nlohmann::json config{{"model_type", "qwen2_5_vl"},
                        {"text_config", small_config("qwen2_5_vl_text")},
                        {"vision_config", {{"hidden_size", 1280}, {"num_heads", 16}}}};
  const auto nested = parse(config);
  CHECK(nested.family == "qwen2_5_vl_text");
  CHECK(nested.qkv_bias);
  CHECK(nested.position_grids == model::PositionGrids::joined);
  REQUIRE(nested.tower);
  CHECK(nested.tower->encoder == "qwen2_5_vl_vision");
  nlohmann::json flat = small_config("qwen2_5_vl");
  flat["vision_config"] = config["vision_config"];
  CHECK(parse(flat) == nested);
  config["model_type"] = "qwen3_vl";
  config["text_config"] = small_config("qwen3_vl_text");
  CHECK(parse(config).position_grids == model::PositionGrids::woven);
  CHECK(parse(config).qk_norm);
}

TEST_CASE("what transformers has no code for is planned with a warning") {
  CHECK(parse(small_config("internlm2")).reading.warnings.size() == 1);
  auto config = small_config("minicpm");
  config["scale_emb"] = 12;
  config["scale_depth"] = 1.4;
  config["dim_model_base"] = 16;
  const auto spec = parse(config);
  CHECK(spec.embedding_multiplier == 12.0);
  CHECK(spec.residual_multiplier == doctest::Approx(1.4 / 2));  // the root of four blocks
  CHECK(spec.hidden_divisor == 4.0);
  CHECK(spec.reading.warnings.front().find("transformers 5.23 has no code for minicpm") == 0);
}

TEST_CASE("exaone4 rotates in the blocks that have a window, and in all where there is none") {
  auto config = small_config("exaone4");
  CHECK(parse(config).window == Windows{4096, 4096, 4096, 0});
  CHECK(parse(config).unrotated_block == std::vector<bool>{false, false, false, true});
  CHECK(parse(config).post_norms_only);
  config.update({{"sliding_window", nullptr},
                 {"sliding_window_pattern", 0},
                 {"layer_types", std::vector<std::string>(4, "full_attention")}});
  CHECK(parse(config).window == Windows{0, 0, 0, 0});
  CHECK(parse(config).unrotated_block.empty());
  config["sliding_window_pattern"] = "LLLG";
  CHECK(parse(config).window == Windows{0, 0, 0, 0});
  config.erase("layer_types");
  CHECK(error_of(config).find("\"sliding_window_pattern\"") != std::string::npos);
}

TEST_CASE("dots1 has windows in its late blocks, glm4_moe_lite's experts are where it says") {
  auto dots = small_config("dots1");
  dots.update({{"sliding_window", 512}, {"max_window_layers", 2}});
  CHECK(parse(dots).window == Windows{0, 0, 512, 512});
  CHECK_FALSE(parse(dots).moe->normalize_top_k);
  dots.erase("n_shared_experts");
  CHECK(error_of(dots).find("\"n_shared_experts\" is missing") != std::string::npos);
  auto lite = small_config("glm4_moe_lite");
  CHECK(parse(lite).sparse_block == std::vector<bool>{false, true, true, true});
  CHECK(parse(lite).latent->value_dim == 256);
  lite["mlp_layer_types"] = {"sparse", "dense", "dense", "sparse"};
  CHECK(parse(lite).sparse_block == std::vector<bool>{true, false, false, true});
  lite["mlp_layer_types"] = {"sparse", "thin", "dense", "sparse"};
  CHECK(error_of(lite).find("known: \"dense\", \"sparse\"") != std::string::npos);
  lite["mlp_layer_types"] = nlohmann::json::array({"sparse"});
  CHECK(error_of(lite).find("has 1 entries") != std::string::npos);
}

TEST_CASE("seed_oss, helium, minimax_m2 and others say by fields of their own what differs") {
  auto seed = small_config("seed_oss");
  CHECK(parse(seed).qkv_bias);
  CHECK_FALSE(parse(seed).output_bias);
  CHECK(parse(seed).residual_dropout == 0.1);
  CHECK(parse(seed).attention_dropout == 0.1);
  seed["attention_out_bias"] = true;
  CHECK(parse(seed).output_bias);
  auto helium = small_config("helium");
  helium["head_dim"] = 32;
  CHECK(error_of(helium).find("\"head_dim\": 32 gives 4 heads of 32") != std::string::npos);
  auto minimax = small_config("minimax_m2");
  minimax["rotary_dim"] = 64;
  CHECK(parse(minimax).rotary_dim == 64);
  minimax["rotary_dim"] = 256;
  CHECK(error_of(minimax).find("\"rotary_dim\": 256 is more") != std::string::npos);
  auto ernie = small_config("ernie4_5_moe");
  ernie.update({{"moe_num_experts", 16}, {"moe_k", 3}, {"moe_layer_start_index", 2}});
  CHECK(parse(ernie).moe->experts == 16);
  CHECK(parse(ernie).moe->top_k == 3);
  CHECK(parse(ernie).sparse_block == std::vector<bool>{false, false, true, true});
  ernie["moe_num_shared_experts"] = 0;
  CHECK(parse(ernie).moe->shared_intermediate == 0);
  ernie["use_bias"] = true;
  CHECK(error_of(ernie).find("\"use_bias\": true is not modelled yet") != std::string::npos);
  auto hunyuan = small_config("hunyuan_v1_moe");
  hunyuan.update({{"num_experts", 8}, {"moe_topk", {2, 2, 2, 2}}});
  CHECK(parse(hunyuan).moe->top_k == 2);
  for (const nlohmann::json& other :
       {nlohmann::json::array({2, 1, 2, 2}), nlohmann::json::array()}) {
    hunyuan["moe_topk"] = other;
    CHECK(error_of(hunyuan).find("blocks that differ") != std::string::npos);
  }
}
