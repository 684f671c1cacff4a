#include "fields.hpp"

#include <fmt/format.h>

#include <cmath>

#include "ac_advisor/model/error.hpp"
#include "field_effects.hpp"
#include "in_quotes.hpp"
#include "nearest.hpp"

namespace ac_advisor::model {

std::string shown(const JsonValue& value) {
  struct Show {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return in_quotes(s); }
    std::string operator()(const JsonValue::List&) const { return "(a list)"; }
    std::string operator()(const JsonValue::Object&) const { return "(an object)"; }
  };
  return std::visit(Show{}, value.data);
}

Fields::Fields(const JsonValue::Object& object, std::string origin, std::string prefix,
               bool defaults)
    : object_(object),
      origin_(std::move(origin)),
      prefix_(std::move(prefix)),
      defaults_(defaults),
      read_(std::make_shared<std::set<const JsonValue*>>()) {}

Fields Fields::inside(std::string_view name, const JsonValue::Object& object) const {
  Fields inner(object, origin_, fmt::format("{}{}.", prefix_, name), defaults_);
  inner.read_ = read_;
  return inner;
}

std::string Fields::named(std::string_view name) const {
  const JsonValue* value = object_.find(name);
  return fmt::format("{}: \"{}{}\"{}", origin_, prefix_, name,
                     value != nullptr ? ": " + shown(*value) : "");
}

void Fields::fail(std::string_view name, std::string_view why) const {
  throw UserError(fmt::format("{} {}", named(name), why));
}

void Fields::fail(std::string_view why) const {
  throw UserError(fmt::format("{}: {}", origin_, why));
}

const JsonValue* Fields::find(std::string_view name) const {
  const JsonValue* value = object_.find(name);
  if (value == nullptr)
    reject_misspelling_of(name);
  else
    read_->insert(value);
  return value;
}

std::int64_t Fields::size(std::string_view name, std::int64_t limit, std::int64_t fallback) const {
  const JsonValue* value = find(name);
  if (value == nullptr && defaults_) return fallback;
  if (value == nullptr)
    fail(name, fmt::format("is missing; expected an integer from 1 to {}", limit));
  if (value->is_null())
    fail(name, fmt::format("is no size; expected an integer from 1 to {}", limit));
  return *maybe_size(name, limit);
}

std::optional<std::int64_t> Fields::maybe_size(std::string_view name, std::int64_t limit) const {
  const auto expected = [limit] { return fmt::format("expected an integer from 1 to {}", limit); };
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->data)) {
    // Python writes a size as an integer: a larger one than 64 bits hold arrives as a double.
    if (std::abs(*number) < 0x1p63) fail(name, "is not an integer; " + expected());
    fail(name, (*number > 0 ? "is too large; " : "is negative; ") + expected());
  }
  const auto* integer = std::get_if<std::int64_t>(&value->data);
  if (integer == nullptr) fail(name, "is not an integer; " + expected());
  if (*integer < 0) fail(name, "is negative; " + expected());
  if (*integer == 0) fail(name, "is not a size; " + expected());
  if (*integer > limit) fail(name, "is too large; " + expected());
  return *integer;
}

std::optional<std::int64_t> Fields::maybe_integer(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto* integer = std::get_if<std::int64_t>(&value->data);
  if (integer == nullptr) fail(name, "is not an integer of 64 bits; expected an integer or null");
  return *integer;
}

std::optional<double> Fields::maybe_number(std::string_view name, double low, double high) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  double number = 0.0;
  if (const auto* real = std::get_if<double>(&value->data)) {
    number = *real;
  } else if (const auto* integer = std::get_if<std::int64_t>(&value->data)) {
    number = static_cast<double>(*integer);
  } else {
    fail(name, fmt::format("is not a number; expected one from {} to {}", low, high));
  }
  if (!(number >= low && number <= high))
    fail(name, fmt::format("is out of range; expected a number from {} to {}", low, high));
  return number;
}

bool Fields::flag(std::string_view name, bool fallback) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return fallback;
  const auto* boolean = std::get_if<bool>(&value->data);
  if (boolean == nullptr) fail(name, "is not a boolean; expected true or false");
  return *boolean;
}

std::optional<std::string> Fields::maybe_text(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->data);
  if (text == nullptr) fail(name, "is not a string; expected one in double quotes");
  return *text;
}

const JsonValue::Object* Fields::maybe_object(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return nullptr;
  const auto* object = std::get_if<JsonValue::Object>(&value->data);
  if (object == nullptr) fail(name, "is not an object; expected one in braces");
  return object;
}

const JsonValue::List* Fields::maybe_list(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr || value->is_null()) return nullptr;
  const auto* list = std::get_if<JsonValue::List>(&value->data);
  if (list == nullptr) fail(name, "is not a list; expected one in brackets");
  return list;
}

const JsonValue::List* Fields::maybe_list_of_blocks(std::string_view name,
                                                    std::int64_t layers) const {
  const JsonValue::List* list = maybe_list(name);
  if (list != nullptr && static_cast<std::int64_t>(list->size()) != layers)
    fail(name, fmt::format("has {} entries, \"num_hidden_layers\" is {}; give one entry per block "
                           "or leave it out",
                           list->size(), layers));
  return list;
}

// A field whose name is nearly that of an absent one would be lost silently. Names with a leading
// underscore are transformers' own notes.
void Fields::reject_misspelling_of(std::string_view name) const {
  std::vector<std::string_view> present;
  for (const std::string& key : object_.keys)
    if (!key.starts_with('_') && find_field_effect(key) == nullptr) present.push_back(key);
  const std::string_view misspelt = nearest(name, present);
  if (!misspelt.empty())
    fail(fmt::format("{} is not a known field; did you mean \"{}\"?",
                     in_quotes(prefix_ + std::string(misspelt)), name));
}

}  // namespace ac_advisor::model
