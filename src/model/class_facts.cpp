#include "ac_advisor/model/class_facts.hpp"

#include <algorithm>

namespace ac_advisor::model {
namespace {

struct Row {
  std::string_view family;
  ClassFacts facts;
};

// models/FAMILY/modeling_FAMILY.py: __init__ of the block, of attention, of the MLP and of the
// model say the order, the model's forward which masks are made and whether a cache is
// returned, the block's what it names.
constexpr Row rows[] = {
    {"bloom", {.norms = NormOrder::in_turn}},
    {"cohere", {.no_classifier = true}},
    {"cohere2", {.both_masks = true, .no_classifier = true}},
    {"deepseek_v2", {.experts_first = true}},
    {"deepseek_v3", {.experts_first = true}},
    {"dots1", {.experts_first = true, .no_classifier = true}},
    {"ernie4_5", {.no_classifier = true}},
    {"ernie4_5_moe",
     {.balances_experts = true,
      .router = Router::corrected,
      .shared = SharedMlp::first,
      .no_classifier = true}},
    {"exaone4", {.both_masks = true, .drops_cache = true}},
    {"gemma", {.drops_cache = true}},
    {"gemma2", {.both_masks = true}},
    {"gemma3_text", {.both_masks = true}},
    {"glm4_moe", {.experts_first = true, .no_classifier = true}},
    {"glm4_moe_lite", {.experts_first = true, .no_classifier = true}},
    {"gpt2", {.norms = NormOrder::in_turn}},
    {"gpt_neox", {.norms = NormOrder::first}},
    {"gpt_oss", {.both_masks = true, .names_routing = true, .balances_experts = true}},
    {"gptj", {.norms = NormOrder::first, .keys_first = true}},
    {"granite", {.no_classifier = true}},
    {"granitemoe",
     {.norms = NormOrder::between,
      .balances_experts = true,
      .router = Router::of_top,
      .no_classifier = true}},
    {"granitemoeshared",
     {.norms = NormOrder::between,
      .balances_experts = true,
      .router = Router::of_top,
      .shared = SharedMlp::fused,
      .no_classifier = true}},
    {"helium", {.widened_norm_weight = true}},
    {"hunyuan_v1_dense", {.norms_after_rotation = true}},
    {"hunyuan_v1_moe",
     {.norms_after_rotation = true, .router = Router::fp32, .shared = SharedMlp::first}},
    {"llama4_text", {.experts_first = true, .balances_experts = true, .no_classifier = true}},
    {"minimax_m2", {.balances_experts = true, .router = Router::sigmoid, .no_classifier = true}},
    {"ministral3", {.drops_cache = true}},
    {"mistral", {.drops_cache = true}},
    {"mixtral", {.balances_experts = true}},
    {"olmo3", {.both_masks = true}},
    {"olmoe", {.balances_experts = true, .no_classifier = true}},
    {"opt", {.norms = NormOrder::after_each, .keys_first = true, .head_norm_first = true}},
    {"phi3", {.output_first = true, .drops_cache = true}},
    {"phimoe", {.balances_experts = true}},
    {"qwen2", {.drops_cache = true}},
    {"qwen2_moe", {.idle_mask = true, .balances_experts = true}},
    {"qwen2_5_vl_text", {.heads_last = true}},
    {"qwen3", {.drops_cache = true}},
    {"qwen3_5_moe_text", {.balances_experts = true, .delta_apart = true, .no_classifier = true}},
    {"qwen3_5_text", {.delta_apart = true}},
    {"qwen3_moe", {.experts_first = true, .balances_experts = true}},
    {"qwen3_next", {.balances_experts = true}},
    {"smollm3", {.drops_cache = true}},
    {"stablelm", {.heads_last = true}},
    {"starcoder2", {.drops_cache = true}},
};
constexpr ClassFacts usual;

}  // namespace

const ClassFacts& class_facts(std::string_view family) {
  const auto* found = std::find_if(std::begin(rows), std::end(rows),
                                   [&](const Row& row) { return row.family == family; });
  return found != std::end(rows) ? found->facts : usual;
}

}  // namespace ac_advisor::model
