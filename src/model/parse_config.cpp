// From a configuration's fields and its family's row to a ModelSpec.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "block_experts.hpp"
#include "block_windows.hpp"
#include "count_parameters.hpp"
#include "delta_net.hpp"
#include "family.hpp"
#include "fields.hpp"
#include "megatron_config.hpp"
#include "model_section.hpp"
#include "reading.hpp"
#include "sizes.hpp"
#include "tower.hpp"
#include "unread_fields.hpp"

namespace ac_advisor::model {
namespace {

// Throws unless `name`'s value `part` divides `whole_name`'s; the way out is the nearest divisors.
void must_divide(const Fields& fields, std::string_view name, std::int64_t part,
                 std::string_view whole_name, std::int64_t whole) {
  if (whole % part == 0) return;
  std::int64_t below = std::min(part, whole), above = part;
  while (whole % below != 0) --below;
  while (above < whole && whole % above != 0) ++above;
  const std::string divisors = above < whole && above <= sizes::heads
                                   ? fmt::format("{} or {}", below, above)
                                   : fmt::format("{}", below);
  fields.fail(name, fmt::format("{}does not divide \"{}\" {}; nearest divisor: {}",
                                fields.has(name) ? "" : fmt::format("{} ", part), whole_name, whole,
                                divisors));
}

// DeepseekV2Config, DeepseekV3Config. "head_dim" and "qk_head_dim" of a saved file follow from
// them.
LatentAttention read_latent(const Fields& fields, LatentAttention latent) {
  const auto read = [&](std::string_view name, std::int64_t absent) {
    return fields.maybe_size(name, sizes::head_dim).value_or(absent);
  };
  latent.q_rank = read("q_lora_rank", fields.has("q_lora_rank") ? 0 : latent.q_rank);  // null: none
  latent.kv_rank = read("kv_lora_rank", latent.kv_rank);
  latent.plain_dim = read("qk_nope_head_dim", latent.plain_dim);
  latent.rotated_dim = read("qk_rope_head_dim", latent.rotated_dim);
  latent.value_dim = read("v_head_dim", latent.value_dim);
  static_cast<void>(fields.maybe_size("qk_head_dim", sizes::head_dim));
  if (latent.rotated_dim % 2 != 0)
    fields.fail("qk_rope_head_dim", "is odd; rotary embeddings need an even number");
  return latent;
}

// FalconAttention.__init__, FalconDecoderLayer.__init__: what of heads, norms and residuals a new
// decoder, and an old one, goes by.
void read_decoder_architecture(const Fields& fields, ModelSpec& spec) {
  const bool newer = fields.flag("new_decoder_architecture", false);
  const bool one_pair = fields.flag("multi_query", true);
  const bool parallel = fields.flag("parallel_attn", true);
  const auto given = fields.maybe_size("num_kv_heads", sizes::heads);
  const auto norms = fields.maybe_integer("num_ln_in_parallel_attn");
  if (norms && *norms != 1 && *norms != 2)
    fields.fail("num_ln_in_parallel_attn", "is not 1 or 2, the norms of a block");
  if (!newer && norms == 2)
    fields.fail("num_ln_in_parallel_attn",
                "is of \"new_decoder_architecture\", which is false; expected null or 1");
  if (newer && !parallel)
    fields.fail("parallel_attn",
                "is false; a \"new_decoder_architecture\" runs attention and MLP side by side: "
                "expected true");
  if (!newer && !one_pair && given && *given != spec.heads)
    fields.fail("num_kv_heads",
                fmt::format("is not \"num_attention_heads\" {}, without \"multi_query\" and "
                            "\"new_decoder_architecture\"",
                            spec.heads));
  spec.kv_heads = newer ? given.value_or(spec.heads) : one_pair ? 1 : spec.heads;
  if (newer) must_divide(fields, "num_kv_heads", spec.kv_heads, "num_attention_heads", spec.heads);
  spec.repeats_keys = newer;
  spec.side_by_side = parallel;
  spec.shared_norm = parallel && norms.value_or(newer ? 2 : 1) == 1;
  for (const char* name : {"alibi", "bias"})
    if (fields.flag(name, false)) fields.fail(name, "is not modelled yet; expected false");
  for (const char* name : {"hidden_dropout", "attention_dropout"})
    if (fields.maybe_number(name, 0.0, 1.0).value_or(0.0) > 0.0)
      fields.fail(name, "is not modelled yet for this family; expected 0");
}

void read_sizes(const Family& family, const Fields& fields, ModelSpec& spec) {
  // attribute_map: what a family calls by a name of its own has the usual one as well.
  FieldNames names = family.fields;
  const auto usual = [&](std::string_view FieldNames::*name) {
    if (!fields.has(names.*name) && fields.has(FieldNames{}.*name))
      names.*name = FieldNames{}.*name;
  };
  usual(&FieldNames::hidden);
  usual(&FieldNames::layers);
  usual(&FieldNames::heads);
  usual(&FieldNames::positions);
  if (!names.older_hidden.empty() && fields.has(names.older_hidden)) {
    static_cast<void>(fields.maybe_size(names.hidden, sizes::hidden));
    names.hidden = names.older_hidden;
  }
  spec.hidden = fields.size(names.hidden, sizes::hidden, family.hidden);
  spec.intermediate =
      family.intermediate == 0
          ? fields.maybe_size(names.intermediate, sizes::intermediate).value_or(4 * spec.hidden)
          : fields.size(names.intermediate, sizes::intermediate, family.intermediate);
  spec.layers = fields.size(names.layers, sizes::layers, family.layers);
  spec.heads = fields.size(names.heads, sizes::heads, family.heads);
  spec.vocab = fields.size("vocab_size", sizes::vocab, family.vocab);
  spec.kv_heads = spec.heads;
  if (!names.kv_heads.empty()) {
    // Absent: the family's number; null: as many as heads.
    const bool given = fields.has(names.kv_heads);
    spec.kv_heads = fields.maybe_size(names.kv_heads, sizes::heads)
                        .value_or(family.kv_heads == 0 || given ? spec.heads : family.kv_heads);
  }
  if (family.decoder_architecture) read_decoder_architecture(fields, spec);
  auto head_dim = fields.maybe_size("head_dim", sizes::head_dim);
  if (family.latent_attention) {
    spec.latent = read_latent(fields, family.latent);
    head_dim = spec.latent->plain_dim + spec.latent->rotated_dim;
    spec.kv_heads = spec.heads;
  }
  const bool derived = !head_dim && family.head_dim == 0;
  if (derived || family.heads_divide_hidden)
    must_divide(fields, names.heads, spec.heads, names.hidden, spec.hidden);
  if (!names.kv_heads.empty())
    must_divide(fields, names.kv_heads, spec.kv_heads, names.heads, spec.heads);
  spec.head_dim = derived ? spec.hidden / spec.heads : head_dim.value_or(family.head_dim);
  if (spec.head_dim % 2 != 0 && !family.learned_positions && !family.alibi)
    fields.fail(derived ? names.heads : "head_dim",
                fmt::format("gives heads of {} elements; rotary embeddings need an even number",
                            spec.head_dim));
  if (family.square_output && spec.heads * spec.head_dim != spec.hidden)
    fields.fail(fields.has("head_dim") ? "head_dim" : names.heads,
                fmt::format("gives {} heads of {} elements, {} in all; the output's projection of "
                            "{} takes as many as \"{}\" {}",
                            spec.heads, spec.head_dim, spec.heads * spec.head_dim, family.name,
                            names.hidden, spec.hidden));
  if ((spec.heads + 2 * spec.kv_heads) * spec.head_dim > std::numeric_limits<std::int32_t>::max())
    fields.fail(names.heads,
                fmt::format("times head_dim {} is too wide for q, k and v together; check both",
                            spec.head_dim));
  if (fields.has(names.positions))
    spec.max_positions = fields.maybe_size(names.positions, no_limit).value_or(0);
  if (spec.max_positions == 0) spec.max_positions = family.positions;
  if (family.learned_positions) {
    spec.position_table = spec.max_positions + family.position_offset;
  }
}

double read_local_theta(const Fields& fields, const JsonValue::Object* newer, double largest) {
  if (newer != nullptr) {
    const Fields rope = fields.inside("rope_parameters", *newer);
    if (const JsonValue::Object* local = rope.maybe_object("sliding_attention"))
      if (auto theta =
              rope.inside("sliding_attention", *local).maybe_number("rope_theta", 1e-6, largest))
        return *theta;
  }
  return fields.maybe_number("rope_local_base_freq", 1e-6, largest).value_or(10000.0);
}

std::optional<RopeScaling> read_rope_scaling(const Fields& fields, const ModelSpec& spec) {
  for (const char* at : {"rope_parameters", "rope_scaling"}) {
    const JsonValue::Object* object = fields.maybe_object(at);
    if (object == nullptr) continue;
    const Fields outer = fields.inside(at, *object);
    const JsonValue::Object* full = outer.maybe_object("full_attention");
    const Fields rope = full != nullptr ? outer.inside("full_attention", *full) : outer;
    auto type = rope.maybe_text("rope_type");
    if (!type) type = rope.maybe_text("type");
    if (!type || *type == "default") continue;
    RopeScaling scaling;
    scaling.type = *type;
    const auto read = [&](const char* name, double& member) {
      member = rope.maybe_number(name, 1e-9, 1e12).value_or(member);
    };
    scaling.original_positions = static_cast<double>(spec.max_positions);
    read("factor", scaling.factor);
    read("low_freq_factor", scaling.low_freq_factor);
    read("high_freq_factor", scaling.high_freq_factor);
    read("original_max_position_embeddings", scaling.original_positions);
    return scaling;
  }
  return std::nullopt;
}

void read_rotary(const Family& family, const Fields& fields, ModelSpec& spec) {
  constexpr double largest_theta = 1e18;
  // "rope_parameters" since transformers 5, "rope_scaling" and fields of the model's own before.
  const JsonValue::Object* newer = fields.maybe_object("rope_parameters");
  const JsonValue::Object* older = fields.maybe_object("rope_scaling");
  const auto read = [&](std::string_view name, double low, double high) {
    for (const auto& [object, at] :
         {std::pair{older, "rope_scaling"}, {newer, "rope_parameters"}}) {
      if (object == nullptr) continue;
      const Fields rope = fields.inside(at, *object);
      // Models with windows may keep one set of parameters for each kind of block.
      if (const JsonValue::Object* full = rope.maybe_object("full_attention"))
        if (auto value = rope.inside("full_attention", *full).maybe_number(name, low, high))
          return value;
      if (family.rotary_table_per_window && object == newer) continue;  // only by kind of block
      if (auto value = rope.maybe_number(name, low, high)) return value;
    }
    return fields.maybe_number(name, low, high);
  };
  // An older name of the same figure, where the family had one.
  const auto either = [&](std::string_view name, std::string_view older_name, double low,
                          double high) {
    const auto value = read(name, low, high);
    if (older_name == name) return value;
    const auto older_value = fields.maybe_number(older_name, low, high);
    return value ? value : older_value;
  };
  spec.rope_theta =
      either("rope_theta", family.fields.theta, 1e-6, largest_theta).value_or(family.rope_theta);
  spec.local_rope_theta = read_local_theta(fields, newer, largest_theta);
  spec.rope_scaling = read_rope_scaling(fields, spec);
  spec.rotary_dim = spec.latent ? spec.latent->rotated_dim : spec.head_dim;
  if (family.partial_rotary_field) {
    auto given = either("partial_rotary_factor", family.fields.rotary_share, 0.0, 1.0);
    if (family.rotary_dim_field) {  // MiniMaxM2Config.convert_rope_params_to_dict
      const auto rotated = fields.maybe_size("rotary_dim", sizes::head_dim);
      if (rotated && *rotated > spec.head_dim)
        fields.fail("rotary_dim",
                    fmt::format("is more than the {} elements of a head", spec.head_dim));
      if (rotated && !given)
        given = static_cast<double>(*rotated) / static_cast<double>(spec.head_dim);
    }
    const double share = given.value_or(family.rotary_share);
    const auto rotated = static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * share);
    spec.rotary_dim = (rotated + 1) / 2 * 2;  // arange(0, dim, 2) rounds an odd one up
    if (rotated == 0)
      fields.fail(
          fmt::format("\"partial_rotary_factor\": {} leaves nothing of the {} elements of "
                      "a head to rotate; expected up to 1",
                      share, spec.head_dim));
  }
  if (family.rotary_dim > 0) {
    spec.rotary_dim = fields.maybe_size("rotary_dim", sizes::head_dim).value_or(family.rotary_dim);
    if (spec.rotary_dim % 2 != 0 || spec.rotary_dim > spec.head_dim)
      fields.fail("rotary_dim", fmt::format("is not an even number of up to the {} elements of a "
                                            "head",
                                            spec.head_dim));
  }
  if (family.rotary_table_per_window) {
    const bool local = std::any_of(spec.window.begin(), spec.window.end(),
                                   [](std::int64_t window) { return window > 0; });
    const bool global = std::find(spec.window.begin(), spec.window.end(), 0) != spec.window.end();
    spec.rotary_tables = local && global ? 2 : 1;
  }
}

Activation read_activation(const Family& family, const Fields& fields) {
  // transformers' ACT2FN; its further names are other kernels, which are not modelled.
  const auto name = fields.maybe_text(family.activation_field);
  if (!name) return family.activation;
  if (*name == "silu" || *name == "swish") return Activation::silu;
  if (*name == "gelu" && family.gelu_is_tanh) return Activation::gelu_tanh;
  if (*name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (family.plain_mlp) {
    if (*name == "gelu") return Activation::gelu;
    if (*name == "gelu_new") return Activation::gelu_new;
    if (*name == "relu") return Activation::relu;
    if (*name == "relu2") return Activation::relu2;
    fields.fail(family.activation_field,
                "is not known; known: \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\", "
                "\"relu2\", \"silu\"");
  }
  fields.fail(family.activation_field, "is not known; known: \"silu\", \"gelu_pytorch_tanh\"");
}

std::optional<double> read_softcap(const Fields& fields, std::string_view name, bool has_field,
                                   std::optional<double> absent) {
  if (!has_field) return std::nullopt;
  const bool given = fields.has(name);  // null switches it off, absence does not
  const auto cap = fields.maybe_number(name, 1e-6, 1e9);
  return given ? cap : absent;
}

void read_blocks(const Family& family, const Fields& fields, ModelSpec& spec) {
  const auto biased = [&](BiasRule rule) {
    return rule == BiasRule::always ||
           (rule == BiasRule::configured && fields.flag(family.fields.bias, family.biased));
  };
  spec.qkv_bias = biased(family.qkv_bias);
  spec.output_bias = family.fields.output_bias.empty()
                         ? biased(family.output_bias)
                         : fields.flag(family.fields.output_bias, false);
  spec.mlp_bias = family.mlp_bias_field ? fields.flag("mlp_bias", false) : biased(family.mlp_bias);
  spec.activation = read_activation(family, fields);
  const auto share = [&](std::string_view name, double absent) {
    return name.empty() ? absent : fields.maybe_number(name, 0.0, 1.0).value_or(absent);
  };
  spec.rms_norm_eps = share(family.fields.epsilon, family.rms_norm_eps);
  spec.attention_dropout = share(family.fields.attention_dropout, family.attention_dropout);
  spec.residual_dropout = share(family.fields.residual_dropout, family.residual_dropout);
  spec.embedding_dropout = share(family.fields.embedding_dropout, family.embedding_dropout);
  if (!family.decoder_architecture) {
    spec.side_by_side = family.side_by_side_field
                            ? fields.flag("use_parallel_residual", family.side_by_side)
                            : family.side_by_side;
    spec.shared_norm = family.shared_norm && spec.side_by_side;
  }
  if (family.head_bias_field) spec.head_bias = fields.flag("lm_head_bias", false);
  spec.tied_embeddings = fields.flag("tie_word_embeddings", family.tied_embeddings);
  spec.attention_softcap = read_softcap(fields, "attn_logit_softcapping",
                                        family.attention_softcap_field, family.attention_softcap);
  spec.final_softcap = read_softcap(fields, "final_logit_softcapping", family.final_softcap_field,
                                    family.final_softcap);
  spec.kv_sharing = fields.maybe_integer("num_kv_shared_layers").value_or(0) > 0;
  spec.qk_norm = family.qk_norm_field ? fields.flag("use_qk_norm", false) : family.qk_norm;
  spec.unweighted_qk_norm = family.unweighted_qk_norm_field && fields.flag("use_qk_norm", true);
  spec.tuned_temperature =
      family.tuned_temperature_field && fields.flag("attn_temperature_tuning", true);
  spec.fused_qkv = family.fused_qkv;
  spec.fused_gate_up = family.fused_gate_up;
  spec.sandwich_norms = family.sandwich_norms;
  spec.unit_offset_norm = family.unit_offset_norm;
  spec.scaled_embedding = family.scaled_embedding;
  spec.eager_attention_only = family.eager_attention_only;
  double per_head = static_cast<double>(spec.head_dim);
  if (family.query_scalar_field)
    per_head = fields.maybe_number("query_pre_attn_scalar", 1e-6, 1e9).value_or(256.0);
  spec.attention_scale = 1.0 / std::sqrt(per_head);
  if (family.logits_multiplier != 0.0)
    spec.logits_multiplier =
        fields.maybe_number("logit_scale", 1e-9, 1e9).value_or(family.logits_multiplier);
  const auto multiplier = [&](std::string_view name) {
    return fields.maybe_number(name, 1e-9, 1e9).value_or(1.0);
  };
  if (family.scale_fields) {
    spec.embedding_multiplier = multiplier("scale_emb");
    spec.residual_multiplier =
        multiplier("scale_depth") / std::sqrt(static_cast<double>(spec.layers));
    spec.hidden_divisor = static_cast<double>(spec.hidden) / multiplier("dim_model_base");
  }
  if (family.multiplier_fields) {
    spec.attention_scale = multiplier("attention_multiplier");
    spec.embedding_multiplier = multiplier("embedding_multiplier");
    spec.residual_multiplier = multiplier("residual_multiplier");
    spec.logits_divisor = multiplier("logits_scaling");
  }
}

// nn.Embedding's rule: a negative index counts from the end of the vocabulary.
std::int64_t read_pad_token(const Family& family, const Fields& fields, std::int64_t vocab) {
  if (!fields.has("pad_token_id")) return family.pad_token_id < vocab ? family.pad_token_id : -1;
  const auto pad = fields.maybe_integer("pad_token_id");
  if (!pad) return -1;
  if (*pad >= vocab || *pad < -vocab)
    fields.fail("pad_token_id", fmt::format("is outside the vocabulary; expected null or an "
                                            "integer from 0 to {}",
                                            vocab - 1));
  return *pad < 0 ? *pad + vocab : *pad;
}

// What would change the step and is not modelled is refused, never silently left out.
void refuse_unmodelled(const Family& family, const Fields& fields, const ModelSpec& spec) {
  const auto refuse = [&](std::string_view name, bool present, std::string_view why) {
    if (present) fields.fail(name, fmt::format("is not modelled yet: {}", why));
  };
  refuse("use_bidirectional_attention", fields.flag("use_bidirectional_attention", false),
         "this is an encoder, not a decoder trained on the next token; expected false");
  refuse("per_layer_config", fields.maybe_object("per_layer_config") != nullptr,
         "every block must have the same sizes");
  if (family.rotation == Rotation::pairs_apart)
    refuse("rope_interleave", !fields.flag("rope_interleave", true), "expected true");
  if (family.moe != ExpertRule::none) {
    refuse("output_router_logits",
           fields.flag("output_router_logits", false) && !(spec.moe && spec.moe->returns_logits),
           "the router's logits among this model's outputs; expected false");
    const double noise = fields.maybe_number("router_jitter_noise", 0.0, 1.0).value_or(0.0);
    refuse("router_jitter_noise", noise > 0.0 && !family.sparse_mixer, "expected 0");
  }
  if (class_facts(family.name).router == Router::corrected)
    refuse("use_bias", fields.flag("use_bias", false),
           "biases of this model's experts and of its LM head; expected false");
  if (family.sparse_mixer)
    refuse("num_experts_per_tok", spec.moe->top_k != 2,
           "its router chooses two experts, whatever is asked for; expected 2");
  if (family.alibi && fields.maybe_integer("pretraining_tp").value_or(1) > 1)
    refuse("slow_but_exact", fields.flag("slow_but_exact", false),
           "products in parts; expected false");
  if (family.alibi_in_larger)
    refuse("model_max_length",
           fields.has("model_max_length") && !fields.has("max_position_embeddings"),
           "without \"max_position_embeddings\" it is of the code of the 13B models, whose scores "
           "have a bias by distance (ALiBi); the 7B models give both");
  if (family.undivided_embedding) {
    const auto width = fields.maybe_size("word_embed_proj_dim", sizes::hidden);
    if (width && *width != spec.hidden)
      fields.fail("word_embed_proj_dim",
                  fmt::format("is not modelled yet: embeddings of another width than the blocks'; "
                              "expected \"hidden_size\" {}",
                              spec.hidden));
    refuse("_remove_final_layer_norm", fields.flag("_remove_final_layer_norm", false),
           "expected false");
  }
  if (family.residual_dropout_field)
    refuse("resid_pdrop", fields.maybe_number("resid_pdrop", 0.0, 1.0).value_or(0.0) > 0.0,
           "dropout outside attention; expected 0");
}

}  // namespace

namespace {

ModelSpec parse_section(const JsonValue::Object& root, const ModelSection& section,
                        const std::string& origin, const std::string& name) {
  const Family& family = *section.family;
  const Fields fields(*section.object, origin, section.prefix, !section.prefix.empty());
  ModelSpec spec;
  spec.name = name;
  spec.family = family.name;
  read_sizes(family, fields, spec);
  read_blocks(family, fields, spec);
  spec.pad_token_id = read_pad_token(family, fields, spec.vocab);
  spec.window = read_windows(family, spec.layers, fields);
  spec.attention_chunk = attention_chunk(family, fields);
  spec.unrotated_block = read_unrotated(family, spec.layers, fields);
  read_delta_net(family, fields, spec);
  const bool all_rotate = family.rotates_without_window && !has_window(family, fields);
  if (family.windows_alone_rotate && !all_rotate)
    for (std::int64_t window : spec.window) spec.unrotated_block.push_back(window == 0);
  if (!family.learned_positions && !family.alibi) read_rotary(family, fields, spec);
  read_experts(family, fields, spec);
  set_family_facts(spec);
  refuse_unmodelled(family, fields, spec);
  // A wrapper's older files have the decoder's fields beside its own.
  if (section.object == &root && section.model_type == family.wrapper) read_wrapper(fields, spec);
  read_remarks(fields, spec);
  if (!family.own_code.empty())
    spec.reading.warnings.push_back(fmt::format(
        "transformers 5.23 has no code for {}: it is planned {}", family.name, family.own_code));
  const bool own_class = section.model_type == family.name && root.find("auto_map") == nullptr;
  judge_unread_fields(family, fields, own_class, spec);
  if (section.object != &root) {
    const Fields outer(root, origin, "", true);
    read_wrapper(outer, spec);
    list_unread_fields(outer, spec);
    if (spec.reading.dtype.empty()) read_dtype(outer, spec);
  }
  if (!count_parameters(spec))
    fields.fail(
        fmt::format("\"hidden_size\" {}, \"intermediate_size\" {}, \"num_hidden_layers\" {} "
                    "and \"vocab_size\" {} make more than {} parameters; check these sizes",
                    spec.hidden, spec.intermediate, spec.layers, spec.vocab, max_parameters));
  return spec;
}

// Why --as llama would be refused; empty where it would not.
std::string refusal_as_llama(const JsonValue::Object& root, ModelSection section,
                             const std::string& origin) {
  section.family = find_family("llama");
  try {
    static_cast<void>(parse_section(root, section, origin, ""));
    return "";
  } catch (const UserError& error) {
    const std::string_view what = error.what();
    return std::string(what.starts_with(origin + ": ") ? what.substr(origin.size() + 2) : what);
  }
}

}  // namespace

ModelSpec of_graph(std::shared_ptr<const graph::Graph> graph) {
  ModelSpec spec;
  spec.name = graph->name;
  spec.family = "graph";
  spec.layers = static_cast<std::int64_t>(graph->blocks.size());
  spec.graph_digest = graph->digest;
  spec.graph = std::move(graph);
  return spec;
}

ModelSpec parse_config(const std::string& text, const std::string& origin, const std::string& name,
                       const std::string& as) {
  if (graph::is_graph(text))
    return of_graph(std::make_shared<const graph::Graph>(graph::read_graph(text, origin)));
  const JsonValue::Object root = read_json(text, origin);
  if (is_megatron(root)) return parse_megatron(root, origin, name);
  const ModelSection section = find_model_section(root, origin, as);
  if (section.family == nullptr)
    fail_unknown_architecture(section, origin, refusal_as_llama(root, section, origin));
  ModelSpec spec = parse_section(root, section, origin, name);
  spec.reading.as = !as.empty() && spec.family != section.model_type;
  return spec;
}

}  // namespace ac_advisor::model
