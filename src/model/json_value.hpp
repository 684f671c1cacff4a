#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ac_advisor::model {

/// What a configuration's JSON can hold. Bounded by the reader in depth and number of values.
struct JsonValue {
  using List = std::vector<JsonValue>;
  struct Object {
    std::vector<std::string> keys;  ///< in file order; a repeated key's last value counts
    std::vector<JsonValue> values;
    [[nodiscard]] const JsonValue* find(std::string_view key) const;
  };
  /// An integer beyond 64 signed bits is held as a double.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Object> data;

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
};

inline constexpr std::size_t max_json_depth = 64;
inline constexpr std::size_t max_json_values = std::size_t{1} << 18;

/// Reads one JSON object. Throws UserError naming `origin`, line and column.
[[nodiscard]] JsonValue::Object read_json(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::model
