#include "block_experts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/class_facts.hpp"
#include "sizes.hpp"

namespace ac_advisor::model {
namespace {

// transformers' attribute_map makes "num_experts" and "num_local_experts" one attribute.
std::int64_t expert_count(const Family& family, const Fields& fields) {
  const auto local = fields.maybe_size("num_local_experts", sizes::experts);
  auto plain = fields.maybe_size("num_experts", sizes::experts);
  if (family.moe == ExpertRule::late_blocks)
    plain = fields.maybe_size("n_routed_experts", sizes::experts);
  if (local && plain && *local != *plain)
    fields.fail("num_experts", fmt::format("is not \"num_local_experts\" {}, which is the same "
                                           "thing; give one of them",
                                           *local));
  return local ? *local : plain.value_or(family.experts);
}

// modeling_qwen3_moe.py, Qwen3MoeDecoderLayer
std::vector<bool> some_blocks(std::int64_t layers, const Fields& fields) {
  const std::int64_t step = fields.maybe_size("decoder_sparse_step", no_limit).value_or(1);
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back((i + 1) % step == 0);
  if (const JsonValue::List* dense = fields.maybe_list("mlp_only_layers")) {
    for (const JsonValue& entry : *dense) {
      const auto* index = std::get_if<std::int64_t>(&entry.data);
      if (index == nullptr || *index < 0)
        fields.fail("mlp_only_layers", fmt::format("has the entry {}; expected indices of blocks "
                                                   "from 0 to {}",
                                                   shown(entry), layers - 1));
      if (*index < layers) sparse[static_cast<std::size_t>(*index)] = false;
    }
  }
  return sparse;
}

// Llama4TextConfig.__post_init__: an empty list is one, of no blocks.
std::vector<bool> listed_blocks(std::int64_t layers, const Fields& fields) {
  const std::int64_t step = fields.maybe_size("interleave_moe_layer_step", no_limit).value_or(1);
  const JsonValue::List* list = fields.maybe_list("moe_layers");
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < layers; ++i)
    sparse.push_back(list == nullptr && (i + 1) % step == 0);
  if (list == nullptr) return sparse;
  for (const JsonValue& entry : *list) {
    const auto* index = std::get_if<std::int64_t>(&entry.data);
    if (index == nullptr || *index < 0)
      fields.fail("moe_layers",
                  fmt::format("has the entry {}; expected indices of blocks from 0 to {}",
                              shown(entry), layers - 1));
    if (*index < layers) sparse[static_cast<std::size_t>(*index)] = true;
  }
  return sparse;
}

bool any(const std::vector<bool>& sparse) {
  return std::find(sparse.begin(), sparse.end(), true) != sparse.end();
}

// Experts are chosen from the best groups of them.
void read_groups(const Family& family, const Fields& fields, MoeSpec& moe) {
  moe.groups = fields.maybe_size("n_group", sizes::experts).value_or(family.expert_groups);
  moe.top_groups = fields.maybe_size("topk_group", sizes::experts).value_or(family.top_groups);
  if (moe.experts % moe.groups != 0 || moe.experts / moe.groups < 2)
    fields.fail("n_group",
                fmt::format("does not divide {} experts into groups of two or more", moe.experts));
  if (moe.top_groups > moe.groups)
    fields.fail("topk_group", fmt::format("is more than the {} groups", moe.groups));
}

}  // namespace

void read_experts(const Family& family, const Fields& fields, ModelSpec& spec) {
  if (family.moe == ExpertRule::none) return;
  MoeSpec moe;
  moe.experts = expert_count(family, fields);
  moe.top_k = fields.maybe_size("num_experts_per_tok", sizes::experts).value_or(family.top_k);
  if (moe.top_k == 0) fields.fail("num_experts_per_tok", "is missing; give the experts of a token");
  if (moe.top_k > moe.experts)
    fields.fail("num_experts_per_tok",
                fmt::format("{}is more than the {} experts; expected an integer from 1 to {}",
                            fields.has("num_experts_per_tok") ? "" : fmt::format("{} ", moe.top_k),
                            moe.experts, moe.experts));
  const auto read_shared = [&] {
    if (family.shared_intermediate != 0)
      moe.shared_intermediate =
          fields.maybe_size("shared_expert_intermediate_size", sizes::intermediate)
              .value_or(family.shared_intermediate);
  };
  if (family.moe == ExpertRule::every_block) {
    moe.intermediate = spec.intermediate;
    read_shared();
    moe.normalize_top_k = !family.top_k_norm_field || fields.flag("norm_topk_prob", false);
    moe.input_jitter = family.sparse_mixer &&
                       fields.maybe_number("input_jitter_noise", 0.0, 1.0).value_or(0.0) > 0.0;
    spec.sparse_block.assign(static_cast<std::size_t>(spec.layers), true);
  } else if (family.moe == ExpertRule::late_blocks) {
    moe.intermediate = fields.maybe_size("moe_intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.normalize_top_k = fields.flag("norm_topk_prob", true);
    moe.scaling =
        fields.maybe_number("routed_scaling_factor", 1e-9, 1e9).value_or(family.routed_scaling);
    if (family.sigmoid_scores) read_groups(family, fields, moe);
    if (family.wide_scores && fields.maybe_text("topk_method").value_or("greedy") != "greedy")
      fields.fail("topk_method",
                  "is not modelled yet: experts chosen by groups; expected \"greedy\"");
    moe.shared_intermediate =
        moe.intermediate *
        fields.maybe_size("n_shared_experts", sizes::experts).value_or(family.shared_experts);
    const std::int64_t dense =
        fields.maybe_integer("first_k_dense_replace").value_or(family.dense_blocks);
    for (std::int64_t i = 0; i < spec.layers; ++i) spec.sparse_block.push_back(i >= dense);
    if (dense >= spec.layers) {
      spec.sparse_block.clear();
      return;
    }
  } else if (family.moe == ExpertRule::listed_blocks) {
    moe.intermediate = fields.maybe_size("intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.shared_intermediate = moe.intermediate;
    spec.sparse_block = listed_blocks(spec.layers, fields);
    if (!any(spec.sparse_block)) {
      spec.sparse_block.clear();
      return;
    }
  } else {
    moe.intermediate = fields.maybe_size("moe_intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.normalize_top_k = fields.flag("norm_topk_prob", family.normalized_top_k);
    read_shared();
    spec.sparse_block = some_blocks(spec.layers, fields);
    if (!any(spec.sparse_block)) {
      spec.sparse_block.clear();
      return;
    }
  }
  if (class_facts(family.name).balances_experts) {
    moe.unbalanced = fields.maybe_number("router_aux_loss_coef", 0.0, 1e9) == 0.0;
    moe.returns_logits = !family.every_expert && fields.flag("output_router_logits", false);
  }
  spec.moe = moe;
}

}  // namespace ac_advisor::model
