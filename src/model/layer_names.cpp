#include "ac_advisor/model/layer_names.hpp"

#include <algorithm>

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
    {"falcon",
     {.blocks = "transformer.h",
      .qkv = "self_attention.query_key_value",
      .o = "self_attention.dense",
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h"}},
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
    {"internlm2",
     {.qkv = "attention.wqkv",
      .o = "attention.wo",
      .gate = "feed_forward.w1",
      .up = "feed_forward.w3",
      .down = "feed_forward.w2"}},
    {"opt",
     {.blocks = "model.decoder.layers", .o = "self_attn.out_proj", .up = "fc1", .down = "fc2"}},
    {"phi", {.o = "self_attn.dense", .up = "mlp.fc1", .down = "mlp.fc2"}},
    {"starcoder2", {.up = "mlp.c_fc", .down = "mlp.c_proj"}},
};
constexpr LayerNames usual;

struct Targets {
  std::string_view family, targets;
};
constexpr Targets defaults[] = {
    {"bloom", "query_key_value"},     {"falcon", "query_key_value"},
    {"gemma", "q_proj,v_proj"},       {"gemma2", "q_proj,v_proj"},
    {"gemma3_text", "q_proj,v_proj"}, {"gpt2", "c_attn"},
    {"gpt_neox", "query_key_value"},  {"gptj", "q_proj,v_proj"},
    {"llama", "q_proj,v_proj"},       {"llama4_text", "q_proj,v_proj"},
    {"mistral", "q_proj,v_proj"},     {"mixtral", "q_proj,v_proj"},
    {"opt", "q_proj,v_proj"},         {"phi", "q_proj,v_proj,fc1,fc2"},
    {"qwen2", "q_proj,v_proj"},       {"qwen3", "q_proj,v_proj"},
    {"stablelm", "q_proj,v_proj"},
};

template <class Row>
const Row* find(const Row* begin, const Row* end, std::string_view family) {
  const Row* found = std::find_if(begin, end, [&](const Row& row) { return row.family == family; });
  return found != end ? found : nullptr;
}

}  // namespace

const LayerNames& layer_names(std::string_view family) {
  const Names* found = find(std::begin(rows), std::end(rows), family);
  return found != nullptr ? found->layers : usual;
}

std::string_view default_targets(std::string_view family) {
  const Targets* found = find(std::begin(defaults), std::end(defaults), family);
  return found != nullptr ? found->targets : std::string_view{};
}

}  // namespace ac_advisor::model
