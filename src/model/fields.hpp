#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "json_value.hpp"

namespace ac_advisor::model {

/// Typed access to the fields of one JSON object. Every reader throws UserError naming file, field,
/// value and what would be right. The object must outlive it.
class Fields {
 public:
  /// `prefix` names the object inside the file: "text_config." or nothing. With `defaults`, a size
  /// that the family has a default for may be absent: nested configurations leave such fields out.
  Fields(const JsonValue::Object& object, std::string origin, std::string prefix, bool defaults);

  /// The field's value, null included; nullptr when absent. Throws where it is absent and another
  /// one, which is no known field, has nearly its name.
  const JsonValue* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return object_.find(name) != nullptr; }

  /// An integer from 1 to `limit`. Absent: `fallback` where `defaults` allows it, else an error.
  std::int64_t size(std::string_view name, std::int64_t limit, std::int64_t fallback) const;
  /// The same for a field that may be absent or null.
  std::optional<std::int64_t> maybe_size(std::string_view name, std::int64_t limit) const;
  /// Any integer; absent or null: none.
  std::optional<std::int64_t> maybe_integer(std::string_view name) const;
  /// A finite number in [low, high]; absent or null: none.
  std::optional<double> maybe_number(std::string_view name, double low, double high) const;
  bool flag(std::string_view name, bool fallback) const;
  std::optional<std::string> maybe_text(std::string_view name) const;
  const JsonValue::Object* maybe_object(std::string_view name) const;
  const JsonValue::List* maybe_list(std::string_view name) const;
  /// The same of one that has an entry per block.
  const JsonValue::List* maybe_list_of_blocks(std::string_view name, std::int64_t layers) const;

  /// "file: "field": value"
  [[nodiscard]] std::string named(std::string_view name) const;
  /// The same, and why.
  [[noreturn]] void fail(std::string_view name, std::string_view why) const;
  /// "file: why"
  [[noreturn]] void fail(std::string_view why) const;
  [[nodiscard]] Fields inside(std::string_view name, const JsonValue::Object& object) const;

  [[nodiscard]] const JsonValue::Object& object() const { return object_; }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  /// Whether a value of this file was found by `find`, here or in an object `inside`.
  [[nodiscard]] bool was_read(const JsonValue& value) const { return read_->contains(&value); }

 private:
  void reject_misspelling_of(std::string_view name) const;

  const JsonValue::Object& object_;
  std::string origin_;
  std::string prefix_;
  bool defaults_;
  std::shared_ptr<std::set<const JsonValue*>> read_;
};

/// The value as an error message shows it.
[[nodiscard]] std::string shown(const JsonValue& value);

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int32_t>::max();

}  // namespace ac_advisor::model
