#include "json/node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ac_advisor/model/error.hpp"
#include "model/in_quotes.hpp"
#include "model/nearest.hpp"

namespace ac_advisor::json {
namespace {

constexpr int most_levels = 32;
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

}  // namespace

Json parse_document(const std::string& text, const std::string& origin) {
  std::vector<std::unordered_set<std::string>> open;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using E = Json::parse_event_t;
    if ((event == E::object_start || event == E::array_start) && depth >= most_levels)
      throw UserError(fmt::format("{}: nested deeper than {} levels", origin, most_levels));
    if (event == E::object_start) open.emplace_back();
    if (event == E::object_end) open.pop_back();
    if (event == E::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second)
        throw UserError(fmt::format("{}: the key {} is there twice in one object; keep one", origin,
                                    model::in_quotes(key)));
      if (open.back().size() > most_keys)
        throw UserError(fmt::format("{}: more than {} keys in one object", origin, most_keys));
    }
    return true;
  };
  try {
    Json root = Json::parse(text, watch);
    if (!root.is_object()) throw UserError(origin + ": must be a JSON object, in braces");
    return root;
  } catch (const Json::parse_error& error) {
    fail_syntax(text, origin, error);
  } catch (const Json::out_of_range&) {
    throw UserError(origin + ": holds a number that is too large; no size is beyond 64 bits");
  }
}

std::string Node::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

Node Node::child(const Json& json, const std::string& key) const {
  return {json, file_, path_of(key)};
}

std::optional<Node> Node::find(const std::string& key) const {
  if (!json_->is_object()) fail("must be an object, in braces");
  const auto found = json_->find(key);
  if (found == json_->end()) return std::nullopt;
  return child(*found, key);
}

Node Node::at(const std::string& key) const {
  if (std::optional<Node> found = find(key)) return *std::move(found);
  throw UserError(
      fmt::format("{}: \"{}\" is missing{}", file_->origin, path_of(key), file_->lacking));
}

void Node::allow_only(const std::vector<std::string_view>& known) const {
  if (!json_->is_object()) fail("must be an object, in braces");
  for (const auto& item : json_->items()) {
    const std::string& key = item.key();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view near = model::nearest(key, known);
    throw UserError(fmt::format("{}: {}{} is not a known key; {}", file_->origin,
                                path_.empty() ? "" : "\"" + path_ + "\": ", model::in_quotes(key),
                                near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                             : fmt::format("did you mean \"{}\"?", near)));
  }
}

bool Node::truth() const {
  if (!json_->is_boolean()) fail("must be true or false");
  return json_->get<bool>();
}

std::string Node::text() const {
  if (!json_->is_string()) fail("must be a string");
  return json_->get<std::string>();
}

std::int64_t Node::integer(std::int64_t low, std::int64_t high) const {
  const auto expected = fmt::format("must be an integer from {} to {}", low, high);
  if (!json_->is_number_integer()) fail(expected);
  // An unsigned number beyond 63 bits would come out negative.
  if (json_->is_number_unsigned() && json_->get<std::uint64_t>() > static_cast<std::uint64_t>(high))
    fail(expected);
  const auto value = json_->get<std::int64_t>();
  if (value < low || value > high) fail(expected);
  return value;
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
  const auto expected = fmt::format("must be a number from {} to {}", low, high);
  if (!json_->is_number()) fail(expected);
  const auto value = json_->get<double>();
  if (!(value >= low && value <= high)) fail(expected);
  return value;
}

double Node::number() const {
  if (!json_->is_number() || !std::isfinite(json_->get<double>())) fail("must be a number");
  return json_->get<double>();
}

std::vector<Node> Node::list() const {
  if (!json_->is_array()) fail("must be a list, in brackets");
  std::vector<Node> nodes;
  nodes.reserve(json_->size());
  for (const Json& item : *json_)
    nodes.push_back(Node(item, file_, fmt::format("{}[{}]", path_, nodes.size())));
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::members() const {
  if (!json_->is_object()) fail("must be an object, in braces");
  std::vector<std::pair<std::string, Node>> nodes;
  for (const auto& item : json_->items())
    nodes.emplace_back(item.key(), child(item.value(), item.key()));
  return nodes;
}

void Node::fail_unknown(const std::vector<std::string_view>& known) const {
  fail(fmt::format("is not known here; known: {}", fmt::join(known, ", ")));
}

void Node::fail(const std::string& what) const {
  throw UserError(fmt::format("{}: {} {}", where(), shown(*json_), what));
}

}  // namespace ac_advisor::json
