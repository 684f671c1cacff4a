// A mixture of experts by Megatron-LM's arguments: core_v0.16, megatron/training/arguments.py, and
// what megatron/core/transformer/transformer_config.py checks.
#include "megatron_experts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "megatron_arguments.hpp"
#include "sizes.hpp"

namespace ac_advisor::model {
namespace {

constexpr UnplannedArgument unplanned[] = {
    {"moe_z_loss_coeff", "the loss of the router's logits"},
    {"moe_expert_capacity_factor", "tokens that are dropped"},
    {"moe_pad_expert_input_to_capacity", "experts' inputs of one size"},
    {"moe_router_padding_for_fp8", "a router that fills experts' rows up"},
    {"moe_router_padding_for_quantization", "a router that fills experts' rows up"},
    {"moe_router_topk_limited_devices", "experts chosen by devices"},
    {"moe_router_fusion", "the fused router"},
    {"moe_input_jitter_eps", "noise on the router's input"},
    {"moe_shared_expert_overlap", "shared experts on a stream of their own"},
    {"moe_shared_expert_gate", "the shared experts' gate"},
    {"moe_use_legacy_grouped_gemm", "CUTLASS's grouped products"},
    {"moe_apply_probs_on_input", "weights on the experts' input"},
    {"moe_latent_size", "experts of a narrower input"},
    {"overlap_moe_expert_parallel_comm", "two micro-batches at a time"},
    {"use_fused_weighted_squared_relu", "the fused squared ReLU"},
};

/// moe_layer_freq: every how many blocks one has experts, the first of them; or a list of 0 and 1.
std::vector<bool> sparse_blocks(const Fields& fields, std::int64_t layers) {
  constexpr std::string_view name = "moe_layer_freq";
  std::vector<bool> sparse;
  const JsonValue* value = fields.find(name);
  if (value != nullptr && std::holds_alternative<JsonValue::List>(value->data)) {
    for (const JsonValue& entry : *fields.maybe_list(name)) {
      const auto* number = std::get_if<std::int64_t>(&entry.data);
      if (number == nullptr || *number < 0 || *number > 1)
        fields.fail(name, fmt::format("has the entry {}; expected 0 or 1", shown(entry)));
      sparse.push_back(*number == 1);
    }
    if (static_cast<std::int64_t>(sparse.size()) != layers)
      fields.fail(name, fmt::format("has {} entries for {} layers", sparse.size(), layers));
    return sparse;
  }
  const std::int64_t every = fields.maybe_size(name, no_limit).value_or(1);
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(i % every == 0);
  return sparse;
}

/// moe_router_score_function and what is planned of sigmoids alone: groups, a correction of scores,
/// a factor of weights.
void read_scores(const Fields& fields, MoeSpec& moe, MegatronExperts& experts) {
  const std::string scores = fields.maybe_text("moe_router_score_function").value_or("softmax");
  if (scores != "softmax" && scores != "sigmoid")
    fields.fail("moe_router_score_function", "is not planned; expected \"softmax\" or \"sigmoid\"");
  moe.sigmoid_scores = scores == "sigmoid";
  experts.expert_bias = fields.flag("moe_router_enable_expert_bias", false);
  moe.scaling = fields.maybe_number("moe_router_topk_scaling_factor", 0.0, 1e9).value_or(1.0);
  const auto groups = fields.maybe_size("moe_router_num_groups", sizes::experts),
             top = fields.maybe_size("moe_router_group_topk", sizes::experts);
  if (groups.has_value() != top.has_value())
    fields.fail(groups ? "moe_router_num_groups" : "moe_router_group_topk",
                fmt::format("goes with \"{}\"; give both",
                            groups ? "moe_router_group_topk" : "moe_router_num_groups"));
  if (groups) {
    if (moe.experts % *groups != 0)
      fields.fail("moe_router_num_groups",
                  fmt::format("must divide \"num_experts\" {}", moe.experts));
    if (*top > *groups)
      fields.fail("moe_router_group_topk", fmt::format("is more than the {} groups", *groups));
    if (moe.top_k % *top != 0)
      fields.fail("moe_router_group_topk",
                  fmt::format("must divide \"moe_router_topk\" {}", moe.top_k));
    moe.groups = *groups;
    moe.top_groups = *top;
  }
  if (moe.sigmoid_scores) return;
  for (const std::string_view name :
       {"moe_router_num_groups", "moe_router_enable_expert_bias", "moe_router_topk_scaling_factor"})
    if (is_given(fields, name))
      fields.fail(name, "is planned with \"moe_router_score_function\": \"sigmoid\" alone");
}

MegatronExperts read_router(const Fields& fields, MoeSpec& moe) {
  MegatronExperts experts;
  read_scores(fields, moe, experts);
  const std::string balance =
      fields.maybe_text("moe_router_load_balancing_type").value_or("aux_loss");
  if (balance != "aux_loss" && balance != "seq_aux_loss" && balance != "sinkhorn" &&
      balance != "none")
    fields.fail(
        "moe_router_load_balancing_type",
        "is not planned; expected \"aux_loss\", \"seq_aux_loss\", \"sinkhorn\" or \"none\"");
  experts.sinkhorn = balance == "sinkhorn";
  const double coefficient = fields.maybe_number("moe_aux_loss_coeff", 0.0, 1e9).value_or(0.0);
  if (experts.sinkhorn && coefficient > 0)
    fields.fail("moe_aux_loss_coeff",
                "has no effect with \"sinkhorn\", and Megatron-core refuses "
                "it; leave it out");
  experts.sequence_loss = balance == "seq_aux_loss";
  experts.aux_loss = (balance == "aux_loss" || experts.sequence_loss) && coefficient > 0;
  experts.pre_softmax = fields.flag("moe_router_pre_softmax", false);
  if (moe.top_k == 1 && !experts.pre_softmax && !experts.sinkhorn && !moe.sigmoid_scores)
    fields.fail("moe_router_topk",
                "is 1, whose softmax is always 1: Megatron-core asks for "
                "\"moe_router_pre_softmax\": true, or the balancing \"sinkhorn\"");
  const std::string type = fields.maybe_text("moe_router_dtype").value_or("");
  if (!type.empty() && type != "fp32")
    fields.fail("moe_router_dtype", "is not planned; expected \"fp32\", or the field left out");
  experts.wide_router = type == "fp32";
  return experts;
}

}  // namespace

void read_megatron_experts(const Fields& fields, ModelSpec& spec) {
  const auto count = fields.maybe_size("num_experts", sizes::experts);
  refuse_unplanned(fields, unplanned);
  if (!count) {
    if (is_given(fields, "moe_layer_freq") && fields.maybe_integer("moe_layer_freq") != 1)
      fields.fail("moe_layer_freq", "is of experts; give \"num_experts\" too");
    return;
  }
  MoeSpec moe;
  moe.experts = *count;
  moe.top_k = fields.maybe_size("moe_router_topk", sizes::experts).value_or(2);
  if (moe.top_k > moe.experts)
    fields.fail("moe_router_topk", fmt::format("is more than the {} experts", moe.experts));
  moe.intermediate =
      fields.maybe_size("moe_ffn_hidden_size", sizes::intermediate).value_or(spec.intermediate);
  moe.shared_intermediate =
      fields.maybe_size("moe_shared_expert_intermediate_size", sizes::intermediate).value_or(0);
  if (spec.mlp_bias)
    fields.fail("num_experts", "with biases is not planned; give \"disable_bias_linear\": true");
  moe.megatron = read_router(fields, moe);
  if (moe.megatron->sinkhorn && moe.sigmoid_scores)
    fields.fail("moe_router_score_function",
                "has no effect with the balancing \"sinkhorn\"; leave it out");
  moe.megatron->grouped = fields.flag("moe_grouped_gemm", false);
  const std::string dispatcher =
      fields.maybe_text("moe_token_dispatcher_type").value_or("allgather");
  if (dispatcher != "allgather" && dispatcher != "alltoall")
    fields.fail("moe_token_dispatcher_type",
                "is not planned; expected \"allgather\" or \"alltoall\"");
  moe.megatron->all_to_all = dispatcher == "alltoall";
  moe.megatron->fused_permute = fields.flag("moe_permute_fusion", false);
  if (moe.megatron->fused_permute && !moe.megatron->all_to_all)
    fields.fail("moe_permute_fusion",
                "is planned with \"moe_token_dispatcher_type\": \"alltoall\" alone");
  spec.sparse_block = sparse_blocks(fields, spec.layers);
  const auto& sparse = spec.sparse_block;
  if (std::find(sparse.begin(), sparse.end(), true) == sparse.end())
    fields.fail("moe_layer_freq", "leaves no layer any experts; leave out \"num_experts\"");
  spec.moe = moe;
}

}  // namespace ac_advisor::model
