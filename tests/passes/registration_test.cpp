// The order in which parameters stand, against what named_parameters() of transformers 5.23's own
// models prints.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::test {
namespace {

/// Of the embeddings, the first block and what stands beside it, each named once.
std::vector<std::string> order_of(const std::string& config) {
  const model::ModelSpec spec = model::parse_config(config, "config.json", "tiny");
  StepConfig step;
  step.run.batch = 1;
  step.run.seq = 16;
  std::vector<std::string> names;
  for (const passes::Parameter& parameter : passes::build_step(spec, step).parameters) {
    if (parameter.module.block > 0) continue;
    const std::string name = to_string(parameter.module);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("opt registers its last norm first, keys before queries, norms after what they norm") {
  // decoder: embed_tokens, embed_positions, final_layer_norm, layers; of a layer self_attn (k, v,
  // q, out), self_attn_layer_norm, fc1, fc2, final_layer_norm
  CHECK(order_of(R"({"model_type": "opt", "hidden_size": 64, "ffn_dim": 160,
                     "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512})") ==
        std::vector<std::string>{
            "embed_tokens", "norm", "blocks.0.attention.k_proj", "blocks.0.attention.v_proj",
            "blocks.0.attention.q_proj", "blocks.0.attention.o_proj", "blocks.0.norm1",
            "blocks.0.mlp.up_proj", "blocks.0.mlp.down_proj", "blocks.0.norm2"});
}

TEST_CASE("gpt2 registers each norm before what it norms") {
  // wte, wpe, h; of a layer ln_1, attn (c_attn, c_proj), ln_2, mlp (c_fc, c_proj); ln_f
  CHECK(order_of(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
                     "vocab_size": 512})") ==
        std::vector<std::string>{"embed_tokens", "blocks.0.norm1", "blocks.0.attention.qkv_proj",
                                 "blocks.0.attention.o_proj", "blocks.0.norm2",
                                 "blocks.0.mlp.up_proj", "blocks.0.mlp.down_proj", "norm"});
}

TEST_CASE("qwen3_moe registers experts before their router") {
  // mlp.experts (gate_up_proj, down_proj), mlp.gate, then the norms
  const std::vector<std::string> order = order_of(
      R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 8,
          "num_experts_per_tok": 2, "moe_intermediate_size": 48, "intermediate_size": 96,
          "vocab_size": 512})");
  const std::vector<std::string> tail{"blocks.0.mlp.experts",
                                      "blocks.0.mlp.router",
                                      "blocks.0.norm1",
                                      "blocks.0.norm2",
                                      "norm",
                                      "lm_head"};
  REQUIRE(order.size() > tail.size());
  CHECK(std::vector<std::string>(order.end() - static_cast<std::ptrdiff_t>(tail.size()),
                                 order.end()) == tail);
}

}  // namespace ac_advisor::test
