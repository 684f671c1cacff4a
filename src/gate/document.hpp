#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ac_advisor::gate {

using Json = nlohmann::ordered_json;

/// Reads JSON that people write and machines mangle: one object, no key twice, at most 32 levels.
/// Throws UserError naming `origin`, line and column.
[[nodiscard]] Json parse_document(const std::string& text, const std::string& origin);

/// Typed access to a document; every error names file, path, value and what would be right. The
/// document must outlive it.
class Node {
 public:
  Node(const Json& json, std::string origin, std::string path = {})
      : json_(&json), origin_(std::move(origin)), path_(std::move(path)) {}

  [[nodiscard]] std::optional<Node> find(const std::string& key) const;
  [[nodiscard]] Node at(const std::string& key) const;
  /// Throws for a key that is none of `known`, with the nearest of them.
  void allow_only(const std::vector<std::string_view>& known) const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] double number(double low, double high) const;
  [[nodiscard]] std::vector<Node> list() const;
  /// Values of an object in the order of the file, and their keys.
  [[nodiscard]] std::vector<std::pair<std::string, Node>> members() const;

  [[nodiscard]] const Json& json() const { return *json_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// "file: "path""
  [[nodiscard]] std::string where() const { return origin_ + ": \"" + path_ + "\""; }
  /// "file: "path": value what"
  [[noreturn]] void fail(const std::string& what) const;

 private:
  [[nodiscard]] Node child(const Json& json, const std::string& key) const;

  const Json* json_;
  std::string origin_, path_;
};

}  // namespace ac_advisor::gate
