#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Every JSON file that is read: those that people write and those that ac-advisor wrote.
namespace ac_advisor::json {

using Json = nlohmann::ordered_json;

/// Reads JSON that people write and machines mangle: one object, no key twice, at most 32 levels.
/// Throws UserError naming `origin`, line and column.
[[nodiscard]] Json parse_document(const std::string& text, const std::string& origin);

/// Typed access to a document; every error names file, path, value and what would be right. The
/// document must outlive it, and stay as it is: a path is looked up by where its value lies, for
/// the errors that need one.
class Node {
 public:
  /// `lacking` ends the error of a field that is missing: "; is this a profile that …?"
  Node(const Json& json, std::string origin, std::string path = {}, std::string lacking = {})
      : json_(&json),
        file_(std::make_shared<const File>(
            File{std::move(origin), std::move(path), std::move(lacking), &json})) {}

  [[nodiscard]] bool has(const std::string& key) const {
    return json_->is_object() && json_->contains(key);
  }
  [[nodiscard]] bool is_null() const { return json_->is_null(); }
  [[nodiscard]] std::optional<Node> find(const std::string& key) const;
  [[nodiscard]] Node at(const std::string& key) const;
  /// Throws for a key that is none of `known`, with the nearest of them.
  void allow_only(const std::vector<std::string_view>& known) const;

  [[nodiscard]] bool truth() const;
  [[nodiscard]] std::string text() const { return std::string(view()); }
  [[nodiscard]] std::string_view view() const;  ///< of a string, as long as the document is
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number(double low, double high) const;
  /// Finite.
  [[nodiscard]] double number() const;
  /// A count, a size in bytes or a time in nanoseconds: from 0 to 2^61, so that sums of them hold.
  [[nodiscard]] std::int64_t amount() const;
  /// The place of the string in `names`, which are strings.
  template <typename Names>
  [[nodiscard]] std::size_t one_of(const Names& names) const {
    const std::string_view word = view();
    std::size_t place = 0;
    for (const auto& name : names) {
      if (word == name) return place;
      ++place;
    }
    fail_unknown({std::begin(names), std::end(names)});
  }
  [[nodiscard]] std::vector<Node> list() const;
  /// Values of an object in the order of the file, and their keys.
  [[nodiscard]] std::vector<std::pair<std::string, Node>> members() const;

  [[nodiscard]] const Json& json() const { return *json_; }
  [[nodiscard]] std::string path() const;
  /// "file: "path""
  [[nodiscard]] std::string where() const { return file_->origin + ": \"" + path() + "\""; }
  /// "file: "path": value what"
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct File {
    std::string origin, path, lacking;  ///< `path`: of the root
    const Json* root;
  };

  Node(const Json& json, std::shared_ptr<const File> file) : json_(&json), file_(std::move(file)) {}
  [[noreturn]] void fail_unknown(const std::vector<std::string_view>& known) const;

  const Json* json_;
  std::shared_ptr<const File> file_;
};

}  // namespace ac_advisor::json
