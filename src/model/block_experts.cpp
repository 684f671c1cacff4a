#include "block_experts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/class_facts.hpp"
#include "sizes.hpp"

namespace ac_advisor::model {
namespace {

// A list that says the same of each block is a size (hunyuan_v1_moe's moe_topk).
std::optional<std::int64_t> size_of_each(const Fields& fields, std::string_view name) {
  const JsonValue* value = fields.find(name);
  const auto* list = value != nullptr ? std::get_if<JsonValue::List>(&value->data) : nullptr;
  if (list == nullptr) return fields.maybe_size(name, sizes::experts);
  const auto* first = list->empty() ? nullptr : std::get_if<std::int64_t>(&list->front().data);
  const bool alike = first != nullptr && *first > 0 && *first <= sizes::experts &&
                     std::all_of(list->begin(), list->end(), [&](const JsonValue& entry) {
                       const auto* size = std::get_if<std::int64_t>(&entry.data);
                       return size != nullptr && *size == *first;
                     });
  if (!alike)
    fields.fail(name,
                "is not modelled yet: blocks that differ; expected one size, or a list of one "
                "size throughout");
  return *first;
}

// transformers' attribute_map: the name of the family's own, or the usual one.
std::optional<std::int64_t> chosen_experts(const Family& family, const Fields& fields) {
  const std::string_view usual = FieldNames{}.top_k, own = family.fields.top_k;
  return size_of_each(fields, !fields.has(own) && fields.has(usual) ? usual : own);
}

bool late(ExpertRule rule) {
  return rule == ExpertRule::late_blocks || rule == ExpertRule::typed_blocks;
}

// transformers' attribute_map makes "num_experts" and "num_local_experts" one attribute.
std::int64_t expert_count(const Family& family, const Fields& fields) {
  if (!family.fields.experts.empty() && fields.has(family.fields.experts))
    return fields.maybe_size(family.fields.experts, sizes::experts).value_or(family.experts);
  const auto local = fields.maybe_size("num_local_experts", sizes::experts);
  auto plain = fields.maybe_size("num_experts", sizes::experts);
  if (late(family.moe)) plain = fields.maybe_size("n_routed_experts", sizes::experts);
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

// Glm4MoeLiteConfig.__post_init__: all but the first, unless it is told.
std::vector<bool> typed_blocks(std::int64_t layers, const Fields& fields) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  sparse.front() = false;
  const JsonValue::List* list = fields.maybe_list_of_blocks("mlp_layer_types", layers);
  if (list == nullptr) return sparse;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* type = std::get_if<std::string>(&(*list)[i].data);
    if (type == nullptr || (*type != "sparse" && *type != "dense"))
      fields.fail("mlp_layer_types",
                  fmt::format("has the entry {}; known: \"dense\", \"sparse\"", shown((*list)[i])));
    sparse[i] = *type == "sparse";
  }
  return sparse;
}

// Ernie4_5_MoeDecoderLayer.__init__
std::vector<bool> every_so_many(std::int64_t layers, const Fields& fields) {
  const std::int64_t step = fields.maybe_size("moe_layer_interval", no_limit).value_or(1);
  const std::int64_t first = fields.maybe_integer("moe_layer_start_index").value_or(1);
  std::int64_t last = fields.maybe_integer("moe_layer_end_index").value_or(-1);
  if (last == -1) last = layers - 1;
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < layers; ++i)
    sparse.push_back((i + 1) % step == 0 && i >= first && i <= last);
  return sparse;
}

bool any(const std::vector<bool>& sparse) {
  return std::find(sparse.begin(), sparse.end(), true) != sparse.end();
}

// 0: none.
std::int64_t shared_width(const Fields& fields, std::string_view name, std::int64_t absent) {
  const auto given = fields.maybe_integer(name);
  return given == 0 ? 0 : fields.maybe_size(name, sizes::intermediate).value_or(absent);
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
  if (moe.experts == 0) fields.fail("n_routed_experts", "is missing; give the model's experts");
  moe.top_k = chosen_experts(family, fields).value_or(family.top_k);
  const std::string_view top_k = family.fields.top_k;
  if (moe.top_k == 0) fields.fail(top_k, "is missing; give the experts of a token");
  if (moe.top_k > moe.experts)
    fields.fail(top_k,
                fmt::format("{}is more than the {} experts; expected an integer from 1 to {}",
                            fields.has(top_k) ? "" : fmt::format("{} ", moe.top_k), moe.experts,
                            moe.experts));
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
    const SharedMlp shared = class_facts(family.name).shared;
    if (shared == SharedMlp::first) moe.shared_intermediate = moe.intermediate;
    if (shared == SharedMlp::fused)
      moe.shared_intermediate = shared_width(fields, "shared_intermediate_size", 0);
    spec.sparse_block.assign(static_cast<std::size_t>(spec.layers), true);
  } else if (late(family.moe)) {
    moe.intermediate = fields.maybe_size("moe_intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.normalize_top_k = fields.flag("norm_topk_prob", !family.plain_top_k);
    moe.scaling =
        fields.maybe_number("routed_scaling_factor", 1e-9, 1e9).value_or(family.routed_scaling);
    if (family.sigmoid_scores) read_groups(family, fields, moe);
    if (family.wide_scores && fields.maybe_text("topk_method").value_or("greedy") != "greedy")
      fields.fail("topk_method",
                  "is not modelled yet: experts chosen by groups; expected \"greedy\"");
    moe.shared_intermediate =
        moe.intermediate *
        fields.maybe_size("n_shared_experts", sizes::experts).value_or(family.shared_experts);
    if (moe.shared_intermediate == 0)
      fields.fail("n_shared_experts", "is missing; give the experts that every token passes");
    if (family.moe == ExpertRule::typed_blocks) {
      spec.sparse_block = typed_blocks(spec.layers, fields);
    } else {
      const std::int64_t dense =
          fields.maybe_integer("first_k_dense_replace").value_or(family.dense_blocks);
      for (std::int64_t i = 0; i < spec.layers; ++i) spec.sparse_block.push_back(i >= dense);
    }
  } else if (family.moe == ExpertRule::every_so_many) {
    moe.intermediate = fields.maybe_size("moe_intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.normalize_top_k = true;
    moe.shared_intermediate = shared_width(fields, "moe_num_shared_experts", family.shared_experts);
    moe.shared_intermediate *= moe.intermediate;
    spec.sparse_block = every_so_many(spec.layers, fields);
  } else if (family.moe == ExpertRule::listed_blocks) {
    moe.intermediate = fields.maybe_size("intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.shared_intermediate = moe.intermediate;
    spec.sparse_block = listed_blocks(spec.layers, fields);
  } else {
    moe.intermediate = fields.maybe_size("moe_intermediate_size", sizes::intermediate)
                           .value_or(family.expert_intermediate);
    moe.normalize_top_k = fields.flag("norm_topk_prob", family.normalized_top_k);
    read_shared();
    spec.sparse_block = some_blocks(spec.layers, fields);
  }
  if (!any(spec.sparse_block)) {
    spec.sparse_block.clear();
    return;
  }
  if (class_facts(family.name).balances_experts) {
    moe.unbalanced = fields.maybe_number("router_aux_loss_coef", 0.0, 1e9) == 0.0;
    moe.returns_logits = !family.every_expert && fields.flag("output_router_logits", false);
  }
  spec.moe = moe;
}

}  // namespace ac_advisor::model
