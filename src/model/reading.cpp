#include "reading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "in_quotes.hpp"

namespace ac_advisor::model {
namespace {

// transformers v5.23, modeling_rope_utils.py: ROPE_INIT_FUNCTIONS, its older names and qwen2_vl's.
constexpr std::array<std::string_view, 9> rope_types{
    "default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "su", "mrope"};

void remark_rope_type(ModelSpec& spec) {
  if (!spec.rope_scaling) return;
  const std::string& type = spec.rope_scaling->type;
  if (std::find(rope_types.begin(), rope_types.end(), type) != rope_types.end()) return;
  spec.reading.warnings.push_back(
      fmt::format("the rope type {} is not known (known: {}); its tables are planned as the "
                  "default's, which are as large",
                  in_quotes(type), fmt::join(rope_types, ", ")));
}

void remark_quantization(const Fields& fields, ModelSpec& spec) {
  const JsonValue::Object* quantized = fields.maybe_object("quantization_config");
  if (quantized == nullptr) return;
  const auto method = fields.inside("quantization_config", *quantized).maybe_text("quant_method");
  spec.reading.warnings.push_back(fmt::format(
      "quantization_config{}: the published weights are quantized; what is planned is not: all "
      "parameters are in --param-dtype",
      method ? " (" + in_quotes(*method) + ")" : ""));
}

// A model with another head than a language model's is planned with that all the same.
void remark_head(const Fields& fields, ModelSpec& spec) {
  const JsonValue* value = fields.object().find("architectures");
  const auto* list = value != nullptr ? std::get_if<JsonValue::List>(&value->data) : nullptr;
  if (list == nullptr || list->empty()) return;
  const auto* name = std::get_if<std::string>(&list->front().data);
  if (name == nullptr || name->ends_with("ForCausalLM") || name->ends_with("LMHeadModel") ||
      name->ends_with("ForConditionalGeneration"))
    return;
  spec.reading.warnings.push_back(fmt::format(
      "architectures names {}: the step is planned with the head and the loss of a language model",
      in_quotes(*name)));
}

// LLaVA's and others' own code wraps a language model whose model_type it keeps.
void remark_encoder(const Fields& fields, ModelSpec& spec) {
  if (spec.tower) return;
  for (const char* key : {"vision_config", "mm_vision_tower", "vision_tower", "audio_config"}) {
    if (fields.object().find(key) == nullptr) continue;
    spec.reading.warnings.push_back(fmt::format(
        "{} is of an encoder that the class of this model_type does not have: the language model "
        "alone is planned; what the encoder and its projector hold and compute is not in the plan",
        key));
    return;
  }
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 40;
  const std::span<const std::string> shown(names.data(), std::min(names.size(), most));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

}  // namespace

void read_dtype(const Fields& fields, ModelSpec& spec) {
  auto type = fields.maybe_text("dtype");  // transformers 5's name
  if (!type) type = fields.maybe_text("torch_dtype");
  spec.reading.dtype = type.value_or("");
}

void read_remarks(const Fields& fields, ModelSpec& spec) {
  read_dtype(fields, spec);
  remark_head(fields, spec);
  remark_encoder(fields, spec);
  remark_rope_type(spec);
  remark_quantization(fields, spec);
}

void read_published(const FoundConfig& config, ModelSpec& spec) {
  const JsonValue::Object root = read_json(config.text, config.origin);
  const Fields fields(root, config.origin, "", true);
  read_dtype(fields, spec);
  remark_quantization(fields, spec);
  const JsonValue::Object* nested = fields.maybe_object("text_config");
  const Fields text = nested != nullptr ? fields.inside("text_config", *nested) : fields;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (text.has("max_position_embeddings"))
    spec.max_positions = text.maybe_size("max_position_embeddings", most).value_or(0);
}

std::vector<std::string> reading_warnings(const ModelSpec& spec) {
  std::vector<std::string> all = spec.reading.warnings;
  if (!spec.reading.unknown.empty())
    all.push_back("unknown fields, assumed to have no effect: " + listed(spec.reading.unknown));
  return all;
}

std::string reading_note(const ModelSpec& spec) {
  if (spec.reading.ignored.empty() && !spec.reading.as) return "";
  return fmt::format("parsed as {}; no effect: {}", spec.family,
                     spec.reading.ignored.empty() ? "nothing" : listed(spec.reading.ignored));
}

}  // namespace ac_advisor::model
