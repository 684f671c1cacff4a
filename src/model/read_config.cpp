// JSON text to JsonValue, through nlohmann's SAX interface: its parser keeps no recursion, and
// depth and number of values are bounded here before anything is built.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "in_quotes.hpp"
#include "json_value.hpp"

namespace ac_advisor::model {
namespace {

struct Position {
  std::ptrdiff_t line = 1;
  std::ptrdiff_t column = 1;
};

Position position_of(const std::string& text, std::size_t bytes_read) {
  const auto at = static_cast<std::ptrdiff_t>(std::min(bytes_read, text.size() + 1));
  const auto end = text.begin() + std::max<std::ptrdiff_t>(at - 1, 0);
  const auto line_start = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
  return {1 + std::count(text.begin(), end, '\n'), 1 + (end - line_start)};
}

class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {}

  bool null() override { return add({nullptr}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return add({static_cast<std::int64_t>(value)});
    return add({static_cast<double>(value)});
  }
  bool number_float(double value, const std::string& /*digits*/) override { return add({value}); }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) override { return open({JsonValue::Object{}}); }
  bool start_array(std::size_t /*size*/) override { return open({JsonValue::List{}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    std::get<JsonValue::Object>(open_.back()->data).keys.push_back(std::move(name));
    return true;
  }

  bool parse_error(std::size_t bytes_read, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    const std::string what = error.what();
    const auto [line, column] = position_of(text_, bytes_read);
    const std::string where = fmt::format("{}: line {}, column {}", origin_, line, column);
    if (text_.empty()) throw UserError(origin_ + ": the file is empty; give a config.json");
    if (what.find("unexpected end of input") != std::string::npos ||
        what.find("missing closing quote") != std::string::npos)
      throw UserError(where + ": the JSON ends too early; is the file truncated?");
    if (error.id == 406)  // out_of_range: a literal such as 1e999
      throw UserError(where + ": " + in_quotes(last_token) + " is not a finite number");
    if (what.find("UTF-8") != std::string::npos || text_.find('\0') != std::string::npos)
      throw UserError(where + ": not UTF-8 text; give a config.json, not a binary file");
    const bool not_finite =
        last_token.find('N') != std::string::npos || last_token.find('I') != std::string::npos;
    throw UserError(fmt::format("{}: not valid JSON near {}{}", where, in_quotes(last_token),
                                not_finite ? " (JSON has no NaN and no Infinity)" : ""));
  }

  [[nodiscard]] JsonValue take() { return std::move(root_); }

 private:
  JsonValue* place(JsonValue value) {
    if (++values_ > max_json_values)
      throw UserError(fmt::format("{}: more than {} values; this is not a model's configuration",
                                  origin_, max_json_values));
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    // Only the innermost container grows, so pointers to those around it stay valid.
    auto* object = std::get_if<JsonValue::Object>(&open_.back()->data);
    auto& into = object != nullptr ? object->values : std::get<JsonValue::List>(open_.back()->data);
    return &into.emplace_back(std::move(value));
  }
  bool add(JsonValue value) {
    place(std::move(value));
    return true;
  }
  bool open(JsonValue container) {
    if (open_.size() == max_json_depth)
      throw UserError(
          fmt::format("{}: nested deeper than {} levels; this is not a model's "
                      "configuration",
                      origin_, max_json_depth));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::string& origin_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::size_t values_ = 0;
};

}  // namespace

const JsonValue* JsonValue::Object::find(std::string_view key) const {
  for (std::size_t i = keys.size(); i-- > 0;)
    if (keys[i] == key) return &values[i];
  return nullptr;
}

namespace {

/// Python's json writes Infinity without quotes, which is no JSON, and state-space models have one
/// in "time_step_limit": as large a number stands for it, at as many characters.
std::string with_numbers(std::string text) {
  constexpr std::string_view word = "Infinity", number = "1.0e+308";
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (quoted && text[at] == '\\') ++at;
    if (!quoted && text.compare(at, word.size(), word) == 0 && (at == 0 || text[at - 1] != '-'))
      text.replace(at, word.size(), number);
  }
  return text;
}

}  // namespace

JsonValue::Object read_json(const std::string& original, const std::string& origin) {
  const bool infinite = original.find("Infinity") != std::string::npos;
  const std::string replaced = infinite ? with_numbers(original) : std::string();
  const std::string& text = infinite ? replaced : original;
  Builder builder(text, origin);
  nlohmann::json::sax_parse(text, &builder);
  JsonValue root = builder.take();
  if (auto* object = std::get_if<JsonValue::Object>(&root.data)) return std::move(*object);
  throw UserError(origin + ": the JSON is not an object; a configuration starts with {");
}

}  // namespace ac_advisor::model
