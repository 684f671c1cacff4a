#include "json/node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "model/in_quotes.hpp"
#include "model/nearest.hpp"

namespace ac_advisor::json {
namespace {

constexpr std::size_t most_levels = 32;
// Of one object: an ordered_json looks through all of them for each.
constexpr std::size_t most_keys = std::size_t{1} << 14;

[[noreturn]] void fail_syntax(const std::string& text, const std::string& origin,
                              const Json::parse_error& error) {
  const std::size_t at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(at);
  const auto line = 1 + std::count(text.begin(), end, '\n');
  const std::size_t newline = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t column = at - (newline == std::string::npos ? 0 : newline + 1) + 1;
  const std::string what = error.what();
  const bool short_of = what.find("unexpected end of input") != std::string::npos ||
                        what.find("missing closing quote") != std::string::npos;
  const char* why = text.empty() ? "the file is empty"
                    : short_of   ? "the JSON ends too early; is the file cut short?"
                    : what.find("UTF-8") != std::string::npos ? "not UTF-8 text"
                    : text.find('\0') != std::string::npos    ? "not a text file"
                                                              : "not valid JSON here";
  throw UserError(fmt::format("{}: line {}, column {}: {}", origin, line, column, why));
}

std::string shown(const Json& json) {
  if (json.is_object()) return "(an object)";
  if (json.is_array()) return "(a list)";
  if (json.is_string()) return model::in_quotes(json.get_ref<const std::string&>());
  return json.dump();
}

/// Makes lists and objects at their ends, of their size: an ordered_json that grows copies what it
/// has, and nlohmann's own parser with a callback looks through all of a list for each entry.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {}
  [[nodiscard]] Json take_root() { return std::move(values_.front()); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string& /*digits*/) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) override { return open(); }
  bool start_array(std::size_t /*size*/) override { return open(); }

  bool key(std::string& name) override {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(open_.back().key);
    if (static_cast<std::size_t>(keys_.end() - first) == most_keys)
      throw UserError(fmt::format("{}: more than {} keys in one object", origin_, most_keys));
    if (std::find(first, keys_.end(), name) != keys_.end())
      throw UserError(fmt::format("{}: the key {} is there twice in one object; keep one", origin_,
                                  model::in_quotes(name)));
    keys_.push_back(std::move(name));
    return true;
  }

  bool end_object() override {
    const Begin begin = open_.back();
    Json::object_t object;
    object.reserve(keys_.size() - begin.key);
    for (std::size_t i = begin.key; i < keys_.size(); ++i)
      object.emplace_back(std::move(keys_[i]), std::move(values_[begin.value + i - begin.key]));
    keys_.resize(begin.key);
    return close(std::move(object));
  }

  bool end_array() override {
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(open_.back().value);
    return close(
        Json::array_t(std::make_move_iterator(first), std::make_move_iterator(values_.end())));
  }

  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const Json::exception& error) override {
    if (const auto* syntax = dynamic_cast<const Json::parse_error*>(&error))
      fail_syntax(text_, origin_, *syntax);
    throw UserError(origin_ + ": holds a number that is too large; no size is beyond 64 bits");
  }

 private:
  struct Begin {
    std::size_t value, key;
  };

  template <typename T>
  bool put(T&& value) {
    values_.emplace_back(std::forward<T>(value));
    return true;
  }
  bool open() {
    if (open_.size() >= most_levels)
      throw UserError(fmt::format("{}: nested deeper than {} levels", origin_, most_levels));
    open_.push_back({values_.size(), keys_.size()});
    return true;
  }
  template <typename T>
  bool close(T made) {
    values_.resize(open_.back().value);
    open_.pop_back();
    return put(std::move(made));
  }

  const std::string& text_;
  const std::string& origin_;
  std::vector<Json> values_;       ///< of what is open, one after the other
  std::vector<std::string> keys_;  ///< the same
  std::vector<Begin> open_;
};

std::string member(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

/// The path of `sought`, which lies somewhere in `in`.
std::optional<std::string> find_path(const Json& in, const Json& sought, const std::string& path) {
  if (&in == &sought) return path;
  std::optional<std::string> found;
  if (in.is_array())
    for (std::size_t i = 0; i < in.size() && !found; ++i)
      found = find_path(in[i], sought, fmt::format("{}[{}]", path, i));
  if (in.is_object())
    for (const auto& item : in.items())
      if (!found) found = find_path(item.value(), sought, member(path, item.key()));
  return found;
}

}  // namespace

Json parse_document(const std::string& text, const std::string& origin) {
  Builder builder(text, origin);
  Json::sax_parse(text, &builder);
  Json root = builder.take_root();
  if (!root.is_object()) throw UserError(origin + ": must be a JSON object, in braces");
  return root;
}

std::string Node::path() const {
  return find_path(*file_->root, *json_, file_->path).value_or(file_->path);
}

std::optional<Node> Node::find(const std::string& key) const {
  if (!json_->is_object()) fail("must be an object, in braces");
  const auto found = json_->find(key);
  if (found == json_->end()) return std::nullopt;
  return Node(*found, file_);
}

Node Node::at(const std::string& key) const {
  if (std::optional<Node> found = find(key)) return *std::move(found);
  throw UserError(
      fmt::format("{}: \"{}\" is missing{}", file_->origin, member(path(), key), file_->lacking));
}

void Node::allow_only(const std::vector<std::string_view>& known) const {
  if (!json_->is_object()) fail("must be an object, in braces");
  for (const auto& item : json_->items()) {
    const std::string& key = item.key();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view near = model::nearest(key, known);
    const std::string path = this->path();
    throw UserError(fmt::format("{}: {}{} is not a known key; {}", file_->origin,
                                path.empty() ? "" : "\"" + path + "\": ", model::in_quotes(key),
                                near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                             : fmt::format("did you mean \"{}\"?", near)));
  }
}

bool Node::truth() const {
  if (!json_->is_boolean()) fail("must be true or false");
  return json_->get<bool>();
}

std::string_view Node::view() const {
  if (!json_->is_string()) fail("must be a string");
  return json_->get_ref<const std::string&>();
}

std::int64_t Node::integer(std::int64_t low, std::int64_t high) const {
  if (json_->is_number_integer()) {
    const auto value = json_->get<std::int64_t>();
    // An unsigned number beyond 63 bits would come out negative.
    const bool beyond = json_->is_number_unsigned() &&
                        json_->get<std::uint64_t>() > static_cast<std::uint64_t>(high);
    if (!beyond && value >= low && value <= high) return value;
  }
  fail(fmt::format("must be an integer from {} to {}", low, high));
}

std::int64_t Node::integer() const {
  using Limits = std::numeric_limits<std::int64_t>;
  if (!json_->is_number_integer()) fail("must be an integer");
  return integer(Limits::min(), Limits::max());
}

std::int64_t Node::amount() const {
  constexpr std::int64_t most = std::int64_t{1} << 61;
  if (!json_->is_number_integer()) fail("must be an integer from 0 to 2^61");
  if (json_->is_number_unsigned() ? json_->get<std::uint64_t>() > std::uint64_t{most}
                                  : json_->get<std::int64_t>() < 0)
    fail("must be an integer from 0 to 2^61");
  return json_->get<std::int64_t>();
}

double Node::number(double low, double high) const {
  if (json_->is_number()) {
    const auto value = json_->get<double>();
    if (value >= low && value <= high) return value;
  }
  fail(fmt::format("must be a number from {} to {}", low, high));
}

double Node::number() const {
  if (!json_->is_number() || !std::isfinite(json_->get<double>())) fail("must be a number");
  return json_->get<double>();
}

std::vector<Node> Node::list() const {
  if (!json_->is_array()) fail("must be a list, in brackets");
  std::vector<Node> nodes;
  nodes.reserve(json_->size());
  for (const Json& item : *json_) nodes.push_back(Node(item, file_));
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::members() const {
  if (!json_->is_object()) fail("must be an object, in braces");
  std::vector<std::pair<std::string, Node>> nodes;
  for (const auto& item : json_->items()) nodes.emplace_back(item.key(), Node(item.value(), file_));
  return nodes;
}

void Node::fail_unknown(const std::vector<std::string_view>& known) const {
  fail(fmt::format("is not known here; known: {}", fmt::join(known, ", ")));
}

void Node::fail(const std::string& what) const {
  throw UserError(fmt::format("{}: {} {}", where(), shown(*json_), what));
}

}  // namespace ac_advisor::json
