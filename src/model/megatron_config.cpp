// A GPT by Megatron-LM's arguments: core_v0.16, megatron/training/arguments.py, validate_args, and
// megatron/core/transformer/transformer_config.py.
#include "megatron_config.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "count_parameters.hpp"
#include "fields.hpp"
#include "megatron_arguments.hpp"
#include "megatron_experts.hpp"
#include "reading.hpp"
#include "sizes.hpp"
#include "unread_fields.hpp"

namespace ac_advisor::model {
namespace {

constexpr UnplannedArgument unplanned[] = {
    {"mtp_num_layers", "multi-token prediction"},
    {"hybrid_layer_pattern", "blocks of Mamba"},
    {"hybrid_override_pattern", "blocks of Mamba"},
    {"is_hybrid_model", "blocks of Mamba"},
    {"fp8_format", "FP8 of the model's file (it is the option --fp8)"},
    {"fp8_param_gather", "weights in FP8"},
    {"first_last_layers_bf16", "first and last layers that stay in bf16"},
    {"window_size", "sliding windows"},
    {"fp32_residual_connection", "an fp32 residual stream"},
    {"heterogeneous_layers_config_path", "blocks of several kinds"},
};

/// arguments.py: 4 h, or with a gate 8 h / 3 in steps of 64.
std::int64_t default_width(std::int64_t hidden, bool gated) {
  if (!gated) return 4 * hidden;
  return static_cast<std::int64_t>(static_cast<double>(4 * hidden) * 2 / 3) / 64 * 64;
}

void read_positions(const Fields& fields, ModelSpec& spec) {
  const std::string kind =
      fields.maybe_text("position_embedding_type").value_or("learned_absolute");
  spec.max_positions = fields.size("max_position_embeddings", no_limit, 0);
  if (kind == "learned_absolute") {
    spec.position_table = spec.max_positions;
  } else if (kind == "rope") {
    const double share = fields.maybe_number("rotary_percent", 0.0, 1.0).value_or(1.0);
    spec.rotary_dim = static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * share);
    if (spec.rotary_dim < 2 || spec.rotary_dim % 2 != 0)
      fields.fail("rotary_percent", "must leave an even number of a head's elements");
    spec.rope_theta = fields.maybe_number("rotary_base", 1.0, 1e12).value_or(10000.0);
    spec.unfused_rotary = !fields.flag("apply_rope_fusion", !fields.flag("no_rope_fusion", false));
  } else if (kind != "none") {
    fields.fail("position_embedding_type",
                "is not planned; expected \"learned_absolute\", \"rope\" or \"none\"");
  }
}

/// MLATransformerConfig, and what of it is planned: norms of the narrow vectors, rotation by parts.
void read_latent(const Fields& fields, ModelSpec& spec) {
  const bool latent = fields.flag("multi_latent_attention", false);
  for (const std::string_view name :
       {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"})
    if (!latent && is_given(fields, name))
      fields.fail(name, "is of latent attention; give \"multi_latent_attention\": true too");
  if (!latent) return;
  const auto size = [&](std::string_view name, std::int64_t absent) {
    return fields.maybe_size(name, sizes::head_dim).value_or(absent);
  };
  LatentAttention& of = spec.latent.emplace();
  of.q_rank = size("q_lora_rank", 0);
  of.kv_rank = fields.size("kv_lora_rank", sizes::head_dim, 0);
  of.plain_dim = size("qk_head_dim", 128);
  of.rotated_dim = size("qk_pos_emb_head_dim", 64);
  of.value_dim = size("v_head_dim", 128);
  if (of.rotated_dim % 2 != 0)
    fields.fail("qk_pos_emb_head_dim", "is odd; rotary embeddings need an even number");
  if (spec.kv_heads != spec.heads)
    fields.fail("num_query_groups", "has no meaning with \"multi_latent_attention\"; leave it out");
  spec.head_dim = of.plain_dim + of.rotated_dim;
  const std::string type = fields.maybe_text("rope_type").value_or("yarn");
  if (type != "yarn" && type != "rope")
    fields.fail("rope_type", "is not planned; expected \"yarn\" or \"rope\"");
  const auto positions = fields.maybe_size("original_max_position_embeddings", no_limit);
  const auto factor = fields.maybe_number("rotary_scaling_factor", 0.0, 1e9);
  for (const std::string_view name : {"mscale", "mscale_all_dim", "beta_fast", "beta_slow"})
    static_cast<void>(fields.maybe_number(name, 0.0, 1e9));
  if (type == "yarn") {
    spec.rope_scaling.emplace();
    spec.rope_scaling->type = type;
    spec.rope_scaling->factor = factor.value_or(1.0);
    spec.rope_scaling->original_positions = static_cast<double>(positions.value_or(4096));
  }
}

/// After `read_positions` and `read_block`.
void check_latent(const Fields& fields, ModelSpec& spec) {
  if (!spec.latent) return;
  if (spec.position_table > 0 || spec.rotary_dim == 0)
    fields.fail("position_embedding_type",
                "is planned as \"rope\" alone with \"multi_latent_attention\"");
  if (!spec.unfused_rotary)
    fields.fail("no_rope_fusion",
                "is planned as true alone with \"multi_latent_attention\": the fused rotation of "
                "its heads is not planned yet");
  if (!spec.qk_norm)
    fields.fail("qk_layernorm", "is planned as true alone with \"multi_latent_attention\"");
  spec.rotary_dim = spec.latent->rotated_dim;
}

void read_block(const Fields& fields, ModelSpec& spec) {
  const bool gated = fields.flag("swiglu", false);
  spec.plain_mlp = !gated;
  spec.fused_gate_up = gated;
  spec.activation = gated                                ? Activation::silu
                    : fields.flag("squared_relu", false) ? Activation::relu2
                                                         : Activation::gelu_tanh;
  const auto width = fields.maybe_size("ffn_hidden_size", sizes::intermediate);
  spec.intermediate = width.value_or(default_width(spec.hidden, gated));
  const bool biased = fields.flag("add_bias_linear", !fields.flag("disable_bias_linear", false));
  spec.mlp_bias = spec.output_bias = biased;
  spec.qkv_bias = biased || fields.flag("add_qkv_bias", false);
  spec.fused_qkv = true;
  const std::string norm = fields.maybe_text("normalization").value_or("LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm")
    fields.fail("normalization", "is not planned; expected \"LayerNorm\" or \"RMSNorm\"");
  spec.norm = norm == "RMSNorm"                          ? Norm::rms
              : fields.flag("apply_layernorm_1p", false) ? Norm::layer_plus_one
                                                         : Norm::layer;
  const auto epsilon = fields.maybe_number("norm_epsilon", 0.0, 1.0);
  spec.rms_norm_eps = epsilon.value_or(1e-5);
  spec.qk_norm = fields.flag("qk_layernorm", false);
}

}  // namespace

bool is_megatron(const JsonValue::Object& root) {
  const JsonValue* type = root.find("model_type");
  if (type == nullptr) return false;
  const auto* text = std::get_if<std::string>(&type->data);
  return text != nullptr && *text == "megatron";
}

ModelSpec parse_megatron(const JsonValue::Object& root, const std::string& origin,
                         const std::string& name) {
  const Fields fields(root, origin, "", false);
  ModelSpec spec;
  spec.name = name;
  spec.family = "megatron";
  for (const char* unread : {"model_type", "name_or_path"}) static_cast<void>(fields.find(unread));
  refuse_unplanned(fields, unplanned);
  spec.hidden = fields.size("hidden_size", sizes::hidden, 0);
  spec.layers = fields.size("num_layers", sizes::layers, 0);
  spec.heads = fields.size("num_attention_heads", sizes::heads, 0);
  spec.vocab = fields.size("vocab_size", sizes::vocab, 0);
  const auto groups = fields.maybe_size("num_query_groups", sizes::heads);
  spec.kv_heads =
      fields.flag("group_query_attention", groups.has_value()) ? groups.value_or(1) : spec.heads;
  if (spec.heads % spec.kv_heads != 0)
    fields.fail("num_query_groups",
                fmt::format("must divide \"num_attention_heads\" {}", spec.heads));
  const auto width = fields.maybe_size("kv_channels", sizes::head_dim);
  if (!width && spec.hidden % spec.heads != 0)
    fields.fail(
        "num_attention_heads",
        fmt::format("must divide \"hidden_size\" {}, or give \"kv_channels\"", spec.hidden));
  spec.head_dim = width.value_or(spec.hidden / spec.heads);
  read_latent(fields, spec);
  spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  read_positions(fields, spec);
  read_block(fields, spec);
  check_latent(fields, spec);
  read_megatron_experts(fields, spec);
  spec.tied_embeddings = !fields.flag("untie_embeddings_and_output_weights", false);
  spec.attention_dropout = fields.maybe_number("attention_dropout", 0.0, 0.99).value_or(0.1);
  spec.residual_dropout = fields.maybe_number("hidden_dropout", 0.0, 0.99).value_or(0.1);
  spec.embedding_dropout = spec.residual_dropout;
  spec.window.assign(static_cast<std::size_t>(spec.layers), 0);
  if (fields.flag("fp16", false)) spec.reading.dtype = "float16";
  if (fields.flag("bf16", false)) spec.reading.dtype = "bfloat16";
  list_unread_fields(fields, spec);
  if (!count_parameters(spec))
    fields.fail(fmt::format("its sizes make more than {} parameters; check them", max_parameters));
  return spec;
}

}  // namespace ac_advisor::model
