#include "unread_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "embedded/embedded.hpp"
#include "field_effects.hpp"
#include "in_quotes.hpp"

namespace ac_advisor::model {
namespace {

bool has_word(std::string_view words, std::string_view word) {
  for (; !words.empty();) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// Of the fields that change shapes or ops somewhere those that transformers' own code of a family
/// reads: data/families/fields.json. A family that it lacks has none.
const std::map<std::string, std::string, std::less<>>& fields_read() {
  static const std::map<std::string, std::string, std::less<>> table = [] {
    std::map<std::string, std::string, std::less<>> rows;
    for (const embedded::File& file : embedded::files()) {
      if (file.path != "families/fields.json") continue;
      const auto json = nlohmann::json::parse(file.text);
      for (const auto& [family, names] : json.at("reads").items())
        rows.emplace(family, names.get<std::string>());
    }
    return rows;
  }();
  return table;
}

/// The family's code applies it nowhere: it does not name it, or does nothing with what it says
/// (the family's row). Of another class than transformers' own nothing but that row is known.
bool unused(const Family& family, std::string_view name, bool own_class) {
  if (has_word(family.unused_fields, name)) return true;
  const auto read = fields_read().find(family.name);
  return own_class && read != fields_read().end() && !has_word(read->second, name);
}

std::string neutral_value(const FieldEffect& field, const JsonValue& value) {
  if (!field.neutral_text.empty()) return in_quotes(field.neutral_text);
  if (std::holds_alternative<bool>(value.data)) return field.neutral == 1.0 ? "true" : "false";
  if (field.neutral != 0.0) return fmt::format("{}", field.neutral);
  return "null";
}

[[noreturn]] void refuse(const Family& family, const Fields& fields, const FieldEffect& field,
                         const JsonValue& value) {
  fields.fail(field.name,
              fmt::format("changes shapes or ops ({}), and {} does not read it; expected {}, or "
                          "the field left out",
                          field.what, family.name, neutral_value(field, value)));
}

// Of rope_scaling and rope_parameters only the rotated share changes shapes.
void judge_rotary(const Family& family, const Fields& fields) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const JsonValue* value = fields.object().find(name);
    const auto* object = value != nullptr ? std::get_if<JsonValue::Object>(&value->data) : nullptr;
    if (object == nullptr) continue;
    const JsonValue* share = object->find("partial_rotary_factor");
    if (share == nullptr || fields.was_read(*share)) continue;
    const FieldEffect& field = *find_field_effect("partial_rotary_factor");
    if (!is_neutral(field, *share)) refuse(family, fields.inside(name, *object), field, *share);
  }
}

// Calls `visit` with name and value of each field that was not read; a repeated key's last counts.
template <typename Visit>
void for_each_unread(const Fields& fields, Visit visit) {
  const JsonValue::Object& object = fields.object();
  std::map<std::string_view, std::size_t> last;
  for (std::size_t i = 0; i < object.keys.size(); ++i) last[object.keys[i]] = i;
  for (std::size_t i = 0; i < object.keys.size(); ++i)
    if (last[object.keys[i]] == i && !fields.was_read(object.values[i]))
      visit(object.keys[i], object.values[i]);
}

void list(const Fields& fields, const std::string& name, Reading& reading) {
  if (name == "model_type") return;  // read to find the family
  const FieldEffect* field = find_field_effect(name);
  const bool known = field != nullptr || name.starts_with('_');
  const std::string path = fields.prefix() + name;
  (known ? reading.ignored : reading.unknown).push_back(field != nullptr ? path : in_quotes(path));
}

// A window that "use_sliding_window" switches off.
bool switched_off(const Fields& fields, std::string_view name) {
  const JsonValue* used = fields.object().find("use_sliding_window");
  return name == "sliding_window" && used != nullptr && std::holds_alternative<bool>(used->data) &&
         !std::get<bool>(used->data);
}

}  // namespace

void judge_unread_fields(const Family& family, const Fields& fields, bool own_class,
                         ModelSpec& spec) {
  for_each_unread(fields, [&](const std::string& name, const JsonValue& value) {
    const FieldEffect* field = find_field_effect(name);
    const Effect effect = field != nullptr ? field->effect : Effect::none;
    if (effect == Effect::structure && !unused(family, name, own_class) &&
        !switched_off(fields, name) && !is_neutral(*field, value))
      refuse(family, fields, *field, value);
    list(fields, name, spec.reading);
    if (effect == Effect::elsewhere)
      spec.reading.warnings.push_back(fmt::format(
          "\"{}\" is of other programs: transformers does not have it, and it is not planned",
          name));
  });
  judge_rotary(family, fields);
}

void list_unread_fields(const Fields& fields, ModelSpec& spec) {
  for_each_unread(
      fields, [&](const std::string& name, const JsonValue&) { list(fields, name, spec.reading); });
}

}  // namespace ac_advisor::model
