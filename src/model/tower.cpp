// transformers 5.23.0: what an image encoder and its projector hold, from
// models/{gemma3,llama4,llava,mistral3,qwen2_5_vl,qwen3_5,qwen3_vl}/ and
// models/{siglip,clip,pixtral}/, modeling_*.py for the tensors, configuration_*.py for absent
// fields.
#include "tower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include "ac_advisor/model/tower_parts.hpp"
#include "in_quotes.hpp"
#include "sizes.hpp"
#include "unknown_architecture.hpp"
#include "unread_fields.hpp"

namespace ac_advisor::model {
namespace {

struct Sizes {
  std::int64_t hidden, intermediate, layers, heads, image, patch;
  std::int64_t channels = 3;
  std::int64_t frames = 0;     ///< temporal_patch_size; 0: an encoder of single images
  std::int64_t out = 0;        ///< out_hidden_size of the merger inside
  std::int64_t positions = 0;  ///< of a learned table, where it is not the image's patches
  std::int64_t taps = 0;       ///< further mergers, of the layers in deepstack_visual_indexes
  std::int64_t merge = 1;      ///< patches a side that become one
  std::int64_t adapter_in = 0, adapter_out = 0;  ///< projector_input_dim, projector_output_dim
  std::int64_t features = 0;                     ///< vision_output_dim
  std::int64_t window = 0;                       ///< window_size
  std::array<std::int64_t, 4> whole_layers{};    ///< of absent fullatt_block_indexes
  std::array<std::int64_t, 3> tapped{};          ///< of absent deepstack_visual_indexes
};

/// What the projector needs to know of the wrapper.
struct Projection {
  std::int64_t text = 0;      ///< the decoder's hidden size
  std::int64_t features = 1;  ///< encoder layers whose outputs are joined
  bool bias = false;
  std::int64_t merge = 1;  ///< patches a side that become one
};

using Groups = std::vector<TensorGroup>;
using Shape = std::vector<std::int64_t>;

void add_linear(TensorGroup& group, const char* name, std::int64_t in, std::int64_t out,
                bool bias) {
  group.linears.push_back({name, in, out, bias});
}

void add_layer_norm(TensorGroup& group, std::int64_t width) {
  group.shapes.push_back({width});
  group.shapes.push_back({width});
}

// CLIPEncoderLayer, SiglipEncoderLayer and Llama4VisionEncoderLayer: biases everywhere, two
// LayerNorms, an MLP without a gate.
TensorGroup encoder_layers(const Sizes& s, const char* output) {
  TensorGroup layer{s.layers, {}};
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", output})
    add_linear(layer, name, s.hidden, s.hidden, true);
  add_layer_norm(layer, s.hidden);
  add_linear(layer, "mlp.fc1", s.hidden, s.intermediate, true);
  add_linear(layer, "mlp.fc2", s.intermediate, s.hidden, true);
  add_layer_norm(layer, s.hidden);
  return layer;
}

std::int64_t patches(const Sizes& s) { return (s.image / s.patch) * (s.image / s.patch); }

Groups siglip(const Sizes& s, bool pooling_head) {
  TensorGroup first{1, {{s.hidden, s.channels, s.patch, s.patch}, {s.hidden}}}, rest{1, {}};
  first.shapes.push_back({patches(s), s.hidden});
  add_layer_norm(rest, s.hidden);
  if (pooling_head) {  // SiglipMultiheadAttentionPoolingHead
    rest.shapes.push_back({1, 1, s.hidden});
    rest.shapes.push_back({3 * s.hidden, s.hidden});  // in_proj_weight of nn.MultiheadAttention
    rest.shapes.push_back({3 * s.hidden});
    add_linear(rest, "head.attention.out_proj", s.hidden, s.hidden, true);
    add_layer_norm(rest, s.hidden);
    add_linear(rest, "head.mlp.fc1", s.hidden, s.intermediate, true);
    add_linear(rest, "head.mlp.fc2", s.intermediate, s.hidden, true);
  }
  return {first, encoder_layers(s, "self_attn.out_proj"), rest};
}

Groups clip(const Sizes& s) {
  TensorGroup first{1, {{s.hidden}, {s.hidden, s.channels, s.patch, s.patch}}}, rest{1, {}};
  first.shapes.push_back({patches(s) + 1, s.hidden});
  add_layer_norm(first, s.hidden);
  add_layer_norm(rest, s.hidden);
  return {first, encoder_layers(s, "self_attn.out_proj"), rest};
}

Groups pixtral(const Sizes& s) {
  const TensorGroup rest{1, {{s.hidden, s.channels, s.patch, s.patch}, {s.hidden}}};
  TensorGroup layer{s.layers, {{s.hidden}, {s.hidden}}};
  for (const char* name :
       {"attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj"})
    add_linear(layer, name, s.hidden, s.hidden, false);
  add_linear(layer, "feed_forward.gate_proj", s.hidden, s.intermediate, false);
  add_linear(layer, "feed_forward.up_proj", s.hidden, s.intermediate, false);
  add_linear(layer, "feed_forward.down_proj", s.intermediate, s.hidden, false);
  return {rest, layer};
}

// Qwen2_5_VisionTransformerPretrainedModel: RMSNorms, a gated MLP with biases, a merger.
Groups qwen2_5_vision(const Sizes& s) {
  const std::int64_t merged = s.hidden * s.merge * s.merge;
  const TensorGroup first{1, {{s.hidden, s.channels, s.frames, s.patch, s.patch}}};
  TensorGroup rest{1, {{s.hidden}}};
  add_linear(rest, "merger.mlp.0", merged, merged, true);
  add_linear(rest, "merger.mlp.2", merged, s.out, true);
  TensorGroup layer{s.layers, {{s.hidden}, {s.hidden}}};
  add_linear(layer, "attn.qkv", s.hidden, 3 * s.hidden, true);
  add_linear(layer, "attn.proj", s.hidden, s.hidden, true);
  add_linear(layer, "mlp.gate_proj", s.hidden, s.intermediate, true);
  add_linear(layer, "mlp.up_proj", s.hidden, s.intermediate, true);
  add_linear(layer, "mlp.down_proj", s.intermediate, s.hidden, true);
  return {first, layer, rest};
}

// Qwen3VLVisionModel: LayerNorms, an MLP without a gate, learned positions, a merger and further
// ones whose norm is over the merged patches.
Groups qwen3_vision(const Sizes& s) {
  const std::int64_t merged = s.hidden * s.merge * s.merge;
  TensorGroup first{1, {{s.hidden, s.channels, s.frames, s.patch, s.patch}, {s.hidden}}},
      rest{1, {}};
  first.shapes.push_back({s.positions, s.hidden});
  const auto merger = [&](TensorGroup& group, std::int64_t normed) {
    add_layer_norm(group, normed);
    add_linear(group, "linear_fc1", merged, merged, true);
    add_linear(group, "linear_fc2", merged, s.out, true);
  };
  merger(rest, s.hidden);
  TensorGroup layer{s.layers, {}};
  add_layer_norm(layer, s.hidden);
  add_layer_norm(layer, s.hidden);
  add_linear(layer, "attn.qkv", s.hidden, 3 * s.hidden, true);
  add_linear(layer, "attn.proj", s.hidden, s.hidden, true);
  add_linear(layer, "mlp.linear_fc1", s.hidden, s.intermediate, true);
  add_linear(layer, "mlp.linear_fc2", s.intermediate, s.hidden, true);
  TensorGroup taps{s.taps, {}};
  merger(taps, merged);
  return {first, layer, rest, taps};
}

// Llama4VisionModel: CLIP's layers; patches are a linear layer's, the class token comes last, and
// an adapter reads four patches as one.
Groups llama4_vision(const Sizes& s) {
  TensorGroup first{1, {{s.hidden}, {patches(s) + 1, s.hidden}}}, rest{1, {}};
  add_linear(first, "patch_embedding.linear", s.channels * s.patch * s.patch, s.hidden, false);
  add_layer_norm(first, s.hidden);
  add_layer_norm(first, s.hidden);
  add_linear(rest, "vision_adapter.mlp.fc1", s.intermediate, s.adapter_in, false);
  add_linear(rest, "vision_adapter.mlp.fc2", s.adapter_out, s.adapter_out, false);
  return {first, encoder_layers(s, "self_attn.o_proj"), rest};
}

TensorGroup llama4_projector(const Sizes& s, const Projection& p) {
  TensorGroup group{1, {}};
  add_linear(group, "multi_modal_projector.linear_1", s.features, p.text, false);
  return group;
}

TensorGroup gemma3_projector(const Sizes& s, const Projection& p) {
  return {1, {{s.hidden, p.text}, {s.hidden}}};
}

TensorGroup llava_projector(const Sizes& s, const Projection& p) {
  TensorGroup group{1, {}};
  add_linear(group, "multi_modal_projector.linear_1", s.hidden * p.features, p.text, p.bias);
  add_linear(group, "multi_modal_projector.linear_2", p.text, p.text, p.bias);
  return group;
}

TensorGroup mistral3_projector(const Sizes& s, const Projection& p) {
  TensorGroup group{1, {{s.hidden}}};
  add_linear(group, "patch_merger.merging_layer", s.hidden * p.merge * p.merge, s.hidden, false);
  add_linear(group, "multi_modal_projector.linear_1", s.hidden * p.features, p.text, p.bias);
  add_linear(group, "multi_modal_projector.linear_2", p.text, p.text, p.bias);
  return group;
}

/// A wrapper, its usual encoder, and what their configuration classes take for absent fields.
struct Wrapper {
  std::string_view name;
  std::string_view text;     ///< model_type of a decoder that gives none
  std::string_view encoder;  ///< model_type of an absent one
  Sizes own;                 ///< of an absent "vision_config"
  bool tied_embeddings;      ///< of an absent "tie_word_embeddings"
  bool projector_bias;
  std::int64_t merge;
  TensorGroup (*projector)(const Sizes&, const Projection&);
};

constexpr Sizes siglip_sizes{768, 3072, 12, 12, 224, 16};
constexpr Sizes clip_sizes{768, 3072, 12, 12, 224, 32};
constexpr Sizes pixtral_sizes{1024, 4096, 24, 16, 1024, 16};
// The merger is inside; patches of any image.
constexpr Sizes qwen2_5_sizes{.hidden = 3584,
                              .intermediate = 3420,
                              .layers = 32,
                              .heads = 16,
                              .image = 14,
                              .patch = 14,
                              .frames = 2,
                              .out = 3584,
                              .merge = 2,
                              .window = 112,
                              .whole_layers = {7, 15, 23, 31}};
constexpr Sizes qwen3_sizes{.hidden = 1152,
                            .intermediate = 4304,
                            .layers = 27,
                            .heads = 16,
                            .image = 16,
                            .patch = 16,
                            .frames = 2,
                            .out = 3584,
                            .positions = 2304,
                            .taps = 3,
                            .merge = 2,
                            .tapped = {8, 16, 24}};

constexpr Sizes qwen3_5_sizes = [] {  // without DeepStack
  Sizes s = qwen3_sizes;
  s.taps = 0;
  return s;
}();

constexpr Sizes llama4_sizes{.hidden = 768,
                             .intermediate = 5632,
                             .layers = 34,
                             .heads = 16,
                             .image = 448,
                             .patch = 14,
                             .adapter_in = 4096,
                             .adapter_out = 4096,
                             .features = 7680};

constexpr Wrapper wrappers[] = {
    {"gemma3", "gemma3_text", "siglip_vision_model", siglip_sizes, true, false, 1,
     gemma3_projector},
    {"llama4", "llama4_text", "llama4_vision_model", llama4_sizes, false, false, 1,
     llama4_projector},
    {"llava",
     "llama",
     "clip_vision_model",
     {1024, 4096, 24, 16, 336, 14},
     false,
     true,
     1,
     llava_projector},
    {"mistral3",
     "mistral",
     "pixtral",
     {1024, 4096, 24, 16, 1540, 14},
     true,
     false,
     2,
     mistral3_projector},
    {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_vl_vision", qwen2_5_sizes, false, false, 1, nullptr},
    {"qwen3_5", "qwen3_5_text", "qwen3_5_vision", qwen3_5_sizes, false, false, 1, nullptr},
    {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_moe_vision", qwen3_5_sizes, false, false, 1,
     nullptr},
    {"qwen3_vl", "qwen3_vl_text", "qwen3_vl_vision", qwen3_sizes, false, false, 1, nullptr},
};

const Sizes* encoder_sizes(std::string_view model_type) {
  if (model_type == "siglip_vision_model") return &siglip_sizes;
  if (model_type == "clip_vision_model") return &clip_sizes;
  if (model_type == "pixtral") return &pixtral_sizes;
  if (model_type == "llama4_vision_model") return &llama4_sizes;
  // older files give the wrapper's own name
  if (model_type == "qwen2_5_vl_vision" || model_type == "qwen2_5_vl") return &qwen2_5_sizes;
  if (model_type.starts_with("qwen3_5")) return &qwen3_5_sizes;
  if (model_type == "qwen3_vl_vision" || model_type == "qwen3_vl") return &qwen3_sizes;
  return nullptr;
}

const Wrapper* find_wrapper(std::string_view name) {
  for (const Wrapper& wrapper : wrappers)
    if (wrapper.name == name) return &wrapper;
  return nullptr;
}

Sizes read_sizes(const Fields& vision, const Sizes& absent) {
  constexpr std::int64_t largest_image = 1 << 16;
  Sizes s = absent;
  const auto read = [&](const char* name, std::int64_t limit, std::int64_t& member) {
    member = vision.maybe_size(name, limit).value_or(member);
  };
  read("hidden_size", sizes::hidden, s.hidden);
  read("intermediate_size", sizes::intermediate, s.intermediate);
  read("num_hidden_layers", sizes::layers, s.layers);
  read("num_attention_heads", sizes::heads, s.heads);
  if (s.frames > 0) {
    read("depth", sizes::layers, s.layers);
    read("num_heads", sizes::heads, s.heads);
    read("in_channels", sizes::heads, s.channels);
    read("temporal_patch_size", sizes::heads, s.frames);
    read("out_hidden_size", sizes::hidden, s.out);
    read("spatial_merge_size", sizes::heads, s.merge);
    if (s.positions > 0) read("num_position_embeddings", sizes::vocab, s.positions);
    if (const JsonValue::List* taps =
            s.taps > 0 ? vision.maybe_list("deepstack_visual_indexes") : nullptr)
      s.taps = static_cast<std::int64_t>(taps->size());
    read("patch_size", largest_image, s.patch);
    s.image = s.patch;
    return s;
  }
  read("image_size", largest_image, s.image);
  read("patch_size", largest_image, s.patch);
  read("num_channels", sizes::heads, s.channels);
  if (s.adapter_in > 0) {
    read("projector_input_dim", sizes::hidden, s.adapter_in);
    read("projector_output_dim", sizes::hidden, s.adapter_out);
    read("vision_output_dim", sizes::hidden, s.features);
  }
  return s;
}

// "vision_feature_layer": one layer, or a list whose outputs the projector reads together.
std::int64_t feature_layers(const Fields& outer) {
  const JsonValue* value = outer.find("vision_feature_layer");
  const auto* list = value != nullptr ? std::get_if<JsonValue::List>(&value->data) : nullptr;
  if (list == nullptr) return 1;
  constexpr std::size_t most = 64;
  if (list->empty() || list->size() > most)
    outer.fail("vision_feature_layer", "has no or too many entries; expected layers, up to 64");
  return static_cast<std::int64_t>(list->size());
}

/// LlavaModel.get_image_features and CLIPVisionModel.forward, where they are planned: one layer's
/// output, without dropout, by the activations that have ops.
std::optional<TowerRun> read_clip_run(const Sizes& s, const Projection& projection,
                                      const Fields& outer, const Fields& vision) {
  const std::string strategy =
      outer.maybe_text("vision_feature_select_strategy").value_or("default");
  const std::string activation = vision.maybe_text("hidden_act").value_or("quick_gelu");
  const JsonValue* feature = outer.find("vision_feature_layer");
  const bool one = feature == nullptr || std::get_if<JsonValue::List>(&feature->data) == nullptr;
  const std::int64_t layer = one ? outer.maybe_integer("vision_feature_layer").value_or(-2) : -2;
  TowerRun run{s.hidden, s.intermediate, s.layers, s.heads, s.image, s.patch, s.channels};
  run.layers_read = layer < 0 ? s.layers + 1 + layer : layer;
  run.class_token = strategy == "full";
  run.sigmoid_gelu = activation == "quick_gelu";
  run.projector_bias = projection.bias;
  const bool planned =
      one && run.layers_read >= 1 && run.layers_read <= s.layers &&
      (strategy == "default" || strategy == "full") && (run.sigmoid_gelu || activation == "gelu") &&
      outer.maybe_text("projector_hidden_act").value_or("gelu") == "gelu" && projection.bias &&
      vision.maybe_number("attention_dropout", 0, 1).value_or(0) == 0;
  return planned ? std::optional(run) : std::nullopt;
}

/// A list of layers; those of the configuration class where the file has none.
template <std::size_t N>
std::vector<std::int64_t> layer_list(const Fields& vision, const char* name,
                                     const std::array<std::int64_t, N>& absent) {
  const JsonValue::List* list = vision.maybe_list(name);
  if (list == nullptr) return {absent.begin(), absent.end()};
  std::vector<std::int64_t> layers;
  for (const JsonValue& value : *list) {
    const auto* layer = std::get_if<std::int64_t>(&value.data);
    if (layer == nullptr) vision.fail(name, "has an entry that is no layer's number");
    layers.push_back(*layer);
  }
  return layers;
}

/// Qwen2_5_VisionTransformerPretrainedModel.forward and Qwen3VLVisionModel.forward, by the
/// activation that the configuration class has.
std::optional<TowerRun> read_patch_run(const Sizes& s, const Fields& vision) {
  const bool third = s.positions > 0;
  TowerRun run{s.hidden, s.intermediate, s.layers, s.heads, s.image, s.patch, s.channels};
  run.form = third ? TowerForm::qwen3 : TowerForm::qwen2_5;
  run.layers_read = s.layers;
  run.frames = s.frames;
  run.merge = s.merge;
  run.out = s.out;
  run.positions = s.positions;
  if (third) {
    run.taps = layer_list(vision, "deepstack_visual_indexes", s.tapped);
  } else {
    run.window = vision.maybe_size("window_size", 1 << 16).value_or(s.window);
    run.whole_layers = layer_list(vision, "fullatt_block_indexes", s.whole_layers);
  }
  const auto is_layer = [&](std::int64_t layer) { return layer >= 0 && layer < s.layers; };
  const std::string activation = third ? "gelu_pytorch_tanh" : "silu";
  const bool planned = vision.maybe_text("hidden_act").value_or(activation) == activation &&
                       std::is_sorted(run.taps.begin(), run.taps.end()) &&
                       std::all_of(run.taps.begin(), run.taps.end(), is_layer) &&
                       s.hidden / s.heads % 4 == 0 &&
                       (third || run.window / s.merge / s.patch >= 1);
  return planned ? std::optional(run) : std::nullopt;
}

/// What holds parameters is planned or refused: a plan of the decoder alone would be too small.
constexpr std::string_view ways_out =
    "to plan the text model alone, save the object \"text_config\" as a config.json of its own; to "
    "plan all of it, capture it with ac-advisor import (docs/graphs.md)";

/// transformers' own step of it can be captured, with text alone.
[[noreturn]] void fail_unknown_encoder(const Fields& fields, std::string_view field,
                                       std::string_view why) {
  const std::string named = fields.named(field);
  throw UnknownArchitecture(
      fmt::format("{} {}; {}; plan, advise, explain and check capture its step of text alone with "
                  "transformers (--capture auto)",
                  named, why, ways_out),
      named, fmt::format("; it {}; {}", why, ways_out));
}

std::string wrapper_names() {
  std::string names;
  for (const Wrapper& wrapper : wrappers)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", wrapper.name);
  return names;
}

void check(const Fields& vision, const Sizes& s) {
  if (s.hidden % s.heads != 0)
    vision.fail(vision.has("num_attention_heads") ? "num_attention_heads" : "hidden_size",
                fmt::format("does not go with {} heads of {} together: one must divide the other",
                            s.heads, s.hidden));
  if (s.image < s.patch)
    vision.fail("patch_size", fmt::format("is larger than an image of {} pixels", s.image));
}

void read_tower(const Wrapper& wrapper, const Fields& outer, ModelSpec& spec) {
  const JsonValue::Object none;
  const JsonValue::Object* given = outer.maybe_object("vision_config");
  const Fields vision = outer.inside("vision_config", given != nullptr ? *given : none);
  const std::string encoder =
      vision.maybe_text("model_type").value_or(std::string(wrapper.encoder));
  const Sizes* absent = given != nullptr ? encoder_sizes(encoder) : &wrapper.own;
  if (absent == nullptr)
    fail_unknown_encoder(vision, "model_type", "is an encoder that is not planned");
  Sizes s = read_sizes(vision, *absent);
  if (s.hidden % s.heads != 0 && s.hidden == wrapper.own.hidden &&
      !vision.has("num_attention_heads")) {
    // transformers takes no such file; the wrapper's own encoder is meant.
    s = read_sizes(vision, wrapper.own);
    spec.reading.warnings.push_back(
        fmt::format("vision_config gives a hidden size and no heads, which transformers refuses; "
                    "absent sizes are those of {}'s own encoder: {} layers of {}",
                    wrapper.name, s.layers, s.hidden));
  }
  check(vision, s);
  Projection projection{spec.hidden, feature_layers(outer), false, wrapper.merge};
  projection.bias = outer.flag("multimodal_projector_bias", wrapper.projector_bias);
  if (wrapper.merge > 1)
    projection.merge = outer.maybe_size("spatial_merge_size", 64).value_or(wrapper.merge);
  Tower tower;
  tower.encoder = encoder;
  if (wrapper.projector == llava_projector && encoder == "clip_vision_model")
    tower.run = read_clip_run(s, projection, outer, vision);
  const bool without_taps = s.positions > 0 && absent->taps == 0;
  if (s.frames > 0 && !without_taps) tower.run = read_patch_run(s, vision);
  if (s.frames > 0)
    tower.groups = s.positions > 0 ? qwen3_vision(s) : qwen2_5_vision(s);
  else if (encoder == "pixtral")
    tower.groups = pixtral(s);
  else if (encoder == "clip_vision_model")
    tower.groups = clip(s);
  else if (encoder == "llama4_vision_model")
    tower.groups = llama4_vision(s);
  else
    tower.groups = siglip(s, vision.flag("vision_use_head", true));
  if (wrapper.projector != nullptr) tower.groups.push_back(wrapper.projector(s, projection));
  spec.tower = std::move(tower);
  if (given != nullptr) list_unread_fields(vision, spec);
}

}  // namespace

std::string_view default_text_type(std::string_view wrapper) {
  const Wrapper* known = find_wrapper(wrapper);
  return known != nullptr ? known->text : std::string_view();
}

void read_wrapper(const Fields& outer, ModelSpec& spec) {
  const auto name = outer.maybe_text("model_type");
  const Wrapper* wrapper = name ? find_wrapper(*name) : nullptr;
  static_cast<void>(outer.maybe_object("text_config"));
  if (wrapper == nullptr) {
    const std::string why = fmt::format(
        "wraps its text model with encoders that are not planned (planned wrappers: {})",
        wrapper_names());
    if (name) fail_unknown_encoder(outer, "model_type", why);
    outer.fail("model_type", fmt::format("is missing: the file {}; {}", why, ways_out));
  }
  for (const char* other : {"audio_config", "speech_config"})
    if (outer.maybe_object(other) != nullptr)
      fail_unknown_encoder(outer, other, "is an encoder that is not planned");
  const bool tied = outer.flag("tie_word_embeddings", wrapper->tied_embeddings);
  // LlavaConfig takes its decoder's where its own says no.
  spec.tied_embeddings = tied || (!wrapper->tied_embeddings && spec.tied_embeddings);
  read_tower(*wrapper, outer, spec);
}

bool of_projector(const EncoderLinear& layer) {
  constexpr std::string_view beginnings[] = {"merger.", "linear_fc", "multi_modal_projector.",
                                             "patch_merger."};
  return std::any_of(std::begin(beginnings), std::end(beginnings),
                     [&](std::string_view begin) { return layer.name.starts_with(begin); });
}

}  // namespace ac_advisor::model
