#include "model_section.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "ac_advisor/model/error.hpp"
#include "architectures.hpp"
#include "fields.hpp"
#include "in_quotes.hpp"
#include "nearest.hpp"
#include "tower.hpp"
#include "unknown_architecture.hpp"

namespace ac_advisor::model {
namespace {

std::string known_list() { return fmt::format("{}", fmt::join(known_families(), ", ")); }

std::string digits_of(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

// Another number is another model, not a typing error; neither is a short name of its own.
std::string suggestion(const std::string& model_type) {
  constexpr std::size_t shortest = 4;
  if (model_type.size() < shortest || find_other_architecture(model_type) != nullptr) return "";
  std::vector<std::string_view> names;
  for (const std::string& name : known_families())
    if (digits_of(name) == digits_of(model_type)) names.emplace_back(name);
  const std::string_view near = nearest(model_type, names);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

const Family& family_as(const std::string& as) {
  if (const Family* family = find_family(as)) return *family;
  throw UserError(fmt::format("--as {}: not a known family (known: {}){}", in_quotes(as),
                              known_list(), suggestion(as)));
}

// "experts" → "; it has experts", "an encoder" → "; it is an encoder"
std::string described(const OtherArchitecture& other) {
  if (other.what.empty()) return "";
  return fmt::format("; it {} {}", other.what.starts_with("an encoder") ? "is" : "has", other.what);
}

void check_as(const ModelSection& section, const Family& as, const std::string& origin) {
  if (!section.model_type) return;
  const std::string& type = *section.model_type;
  if (section.family != nullptr && section.family != &as)
    throw UserError(fmt::format("--as {}: {} is of the family {}, which is known; leave --as out",
                                as.name, origin, section.family->name));
  if (const OtherArchitecture* other = find_other_architecture(type))
    throw UserError(fmt::format(
        "--as {}: the \"{}model_type\" of {} is {}, which transformers has modelling code of its "
        "own for{}; as {} it would be planned wrong",
        as.name, section.prefix, origin, in_quotes(type), described(*other), as.name));
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
  ModelSection section{&root, "", outer, model_type};
  if (wraps) {
    section.object = &std::get<JsonValue::Object>(nested->data);
    section.prefix = "text_config.";
    const Fields inside = fields.inside("text_config", *section.object);
    auto type = inside.maybe_text("model_type");
    if (!type && model_type) type = default_text_type(*model_type);
    if (type && !type->empty()) {
      section.family = find_family(*type);
      section.model_type = type;
    }
  }
  if (!as.empty()) {
    const Family& family = family_as(as);
    check_as(section, family, origin);
    section.family = &family;
  }
  return section;
}

void fail_unknown_architecture(const ModelSection& section, const std::string& origin,
                               const std::string& refused_as_llama) {
  const std::string as_llama = refused_as_llama.empty()
                                   ? std::string("if its blocks are llama's, read it --as llama")
                                   : fmt::format("--as llama would not do: {}", refused_as_llama);
  if (!section.model_type)
    throw UserError(fmt::format("{}: \"{}model_type\" is missing; expected one of {}; {}", origin,
                                section.prefix, known_list(), as_llama));
  const std::string& type = *section.model_type;
  const std::string named =
      fmt::format("{}: \"{}model_type\": {}", origin, section.prefix, in_quotes(type));
  const std::string what = fmt::format("{} is not planned yet (planned: {})", named, known_list());
  if (const std::string typo = suggestion(type); !typo.empty()) throw UserError(what + typo);
  const OtherArchitecture* other = find_other_architecture(type);
  const std::string hint = other != nullptr ? described(*other) : "; " + as_llama;
  throw UnknownArchitecture(
      what + hint +
          "; plan, advise, explain and check capture it with transformers (--capture auto)",
      named, hint);
}

}  // namespace ac_advisor::model
