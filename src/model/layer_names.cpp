#include "ac_advisor/model/layer_names.hpp"

#include <algorithm>
#include <string>

namespace ac_advisor::model {
namespace {

struct Names {
  std::string_view family;
  LayerNames layers;
};

// models/FAMILY/modeling_FAMILY.py
constexpr Names rows[] = {
    {"baichuan", {.qkv = "self_attn.W_pack"}},
    {"bloom",
     {.blocks = "transformer.h",
      .qkv = "self_attention.query_key_value",
      .o = "self_attention.dense",
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h"}},
    {"dots1",
     {.shared = "mlp.shared_experts",
      .expert_gate = "gate_proj",
      .expert_up = "up_proj",
      .expert_down = "down_proj"}},
    {"ernie4_5_moe",
     {.shared = "mlp.shared_experts",
      .expert_gate = "gate_proj",
      .expert_up = "up_proj",
      .expert_down = "down_proj"}},
    {"falcon",
     {.blocks = "transformer.h",
      .qkv = "self_attention.query_key_value",
      .o = "self_attention.dense",
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h"}},
    {"glm4_moe",
     {.shared = "mlp.shared_experts",
      .expert_gate = "gate_proj",
      .expert_up = "up_proj",
      .expert_down = "down_proj"}},
    {"granitemoeshared",
     {.gate_up = "shared_mlp.input_linear",
      .down = "shared_mlp.output_linear",
      .shared = "shared_mlp"}},
    {"gpt2",
     {.blocks = "transformer.h",
      .qkv = "attn.c_attn",
      .o = "attn.c_proj",
      .up = "mlp.c_fc",
      .down = "mlp.c_proj"}},
    {"gpt_neox",
     {.blocks = "gpt_neox.layers",
      .qkv = "attention.query_key_value",
      .o = "attention.dense",
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h"}},
    {"gptj",
     {.blocks = "transformer.h",
      .q = "attn.q_proj",
      .k = "attn.k_proj",
      .v = "attn.v_proj",
      .o = "attn.out_proj",
      .up = "mlp.fc_in",
      .down = "mlp.fc_out"}},
    {"hunyuan_v1_moe",
     {.shared = "mlp.shared_mlp",
      .expert_gate = "gate_proj",
      .expert_up = "up_proj",
      .expert_down = "down_proj"}},
    {"internlm2",
     {.qkv = "attention.wqkv",
      .o = "attention.wo",
      .gate = "feed_forward.w1",
      .up = "feed_forward.w3",
      .down = "feed_forward.w2"}},
    {"llama4_text",
     {.gate = "feed_forward.gate_proj",
      .up = "feed_forward.up_proj",
      .down = "feed_forward.down_proj",
      .shared = "feed_forward.shared_expert"}},
    {"minimax_m2", {.expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"}},
    {"mixtral", {.expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"}},
    {"olmoe", {.expert_gate = "gate_proj", .expert_up = "up_proj", .expert_down = "down_proj"}},
    {"opt",
     {.blocks = "model.decoder.layers", .o = "self_attn.out_proj", .up = "fc1", .down = "fc2"}},
    {"phi", {.o = "self_attn.dense", .up = "mlp.fc1", .down = "mlp.fc2"}},
    {"qwen3_moe", {.expert_gate = "gate_proj", .expert_up = "up_proj", .expert_down = "down_proj"}},
    {"starcoder2", {.up = "mlp.c_fc", .down = "mlp.c_proj"}},
};
constexpr LayerNames usual;

}  // namespace

bool ends_in(std::string_view path, std::string_view target) {
  return path == target || path.ends_with("." + std::string(target));
}

const LayerNames& layer_names(std::string_view family) {
  const auto* const found = std::find_if(std::begin(rows), std::end(rows),
                                         [&](const Names& row) { return row.family == family; });
  return found != std::end(rows) ? found->layers : usual;
}

}  // namespace ac_advisor::model
