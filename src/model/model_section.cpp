#include "model_section.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ac_advisor/model/error.hpp"
#include "fields.hpp"
#include "in_quotes.hpp"
#include "nearest.hpp"

namespace ac_advisor::model {
namespace {

std::string known_list() { return fmt::format("{}", fmt::join(known_families(), ", ")); }

std::string suggestion(const std::string& model_type) {
  const std::vector<std::string_view> names(known_families().begin(), known_families().end());
  const std::string_view near = nearest(model_type, names);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

const Family& family_as(const std::string& as) {
  if (const Family* family = find_family(as)) return *family;
  throw UserError(fmt::format("--as {}: not a known family (known: {}){}", in_quotes(as),
                              known_list(), suggestion(as)));
}

}  // namespace

ModelSection find_model_section(const JsonValue::Object& root, const std::string& origin,
                                const std::string& as) {
  const Fields fields(root, origin, "", false);
  const auto model_type = fields.maybe_text("model_type");
  const Family* outer = model_type ? find_family(*model_type) : nullptr;
  const JsonValue* nested = root.find("text_config");
  const bool wraps = nested != nullptr && std::holds_alternative<JsonValue::Object>(nested->data) &&
                     (outer == nullptr || outer->wrapper == *model_type) &&
                     !fields.has("hidden_size");
  ModelSection section{&root, "", outer};
  auto inner_type = model_type;
  if (wraps) {
    section.object = &std::get<JsonValue::Object>(nested->data);
    section.prefix = "text_config.";
    const Fields inside = fields.inside("text_config", *section.object);
    if (const auto type = inside.maybe_text("model_type")) {
      section.family = find_family(*type);
      inner_type = type;
    }
  }
  if (!as.empty()) section.family = &family_as(as);
  if (section.family != nullptr) return section;

  if (!inner_type) {
    fields.fail("model_type", fmt::format("is missing; expected one of {}, or give --as llama to "
                                          "read it as that family",
                                          known_list()));
  }
  throw UserError(fmt::format(
      "{}: \"{}model_type\": {} is not a known architecture (known: {}){}; if its blocks are those "
      "of a known family, name it: --as llama",
      origin, section.prefix, in_quotes(*inner_type), known_list(), suggestion(*inner_type)));
}

}  // namespace ac_advisor::model
