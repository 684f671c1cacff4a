#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/variant_options.hpp"
#include "model/letters.hpp"
#include "model/nearest.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

/// As Python's defaults and YAML's values compare: True and true; None, null and nothing, but not
/// the word "none"; an empty list or map is none; quotes within a list say nothing.
std::string canonical(const std::string& text) {
  if (text == "None") return {};
  std::string word = model::lower(text);
  std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
  if (word == "null" || word == "~" || word == "[]" || word == "{}") word.clear();
  return word;
}

std::optional<double> number_of(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size()) return {};
  return number;
}

/// 0 and 0.0, no and False.
bool same(const std::string& a, const std::string& b) {
  const std::string one = canonical(a), other = canonical(b);
  if (one == other) return true;
  if (const auto x = number_of(one), y = number_of(other); x && y) return *x == *y;
  const auto x = truth_of(one), y = truth_of(other);
  return x && y && *x == *y;
}

}  // namespace

std::optional<bool> truth_of(const std::string& word) {
  const std::string small = model::lower(word);
  for (const char* yes : {"true", "yes", "on", "1"})
    if (small == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (small == no) return false;
  return {};
}

const Node* Keys::set_in_file(std::string_view key) const {
  const Node* node = file_.find(key);
  return node == nullptr || node->kind == Node::Kind::null ? nullptr : node;
}

Mapping& Keys::row(std::string_view key) {
  const auto found = std::find_if(out_.mapping.begin(), out_.mapping.end(),
                                  [&](const Mapping& m) { return m.key == key; });
  if (found != out_.mapping.end()) return *found;
  Mapping mapping{.key = std::string(key)};
  if (const Node* node = set_in_file(key)) {
    mapping.value = node->shown();
    mapping.line = node->line;
  } else if (const Node* none = file_.find(key)) {  // written out: none, whatever the default is
    mapping.value = none->shown();
    mapping.line = none->line;
  } else if (const auto named = tool_.defaults.find(key); named != tool_.defaults.end()) {
    mapping.value = named->second.value;
    mapping.source = named->second.source;
  }
  return out_.mapping.emplace_back(std::move(mapping));
}

void Keys::refuse_unset(std::string_view key) const {
  const Node* node = set_in_file(key);
  if (node == nullptr || node->unset.empty()) return;
  throw UserError(fmt::format("{}:{}: {}: {}; give the option by hand", out_.path, node->line, key,
                              node->unset));
}

bool Keys::left_open(std::string_view key, std::string_view option) {
  const Node* node = set_in_file(key);
  if (node == nullptr || node->unset.empty() || !by_hand(option)) return false;
  asked_.insert(std::string(key));
  row(key).options = std::string(option) + " (by hand instead)";
  return true;
}

std::vector<std::string> Keys::within(std::string_view section) const {
  std::vector<std::string> all;
  for (const auto& [key, node] : file_.members)
    if (key.starts_with(section)) all.push_back(key);
  return all;
}

std::optional<std::string> Keys::text(std::string_view key) {
  asked_.insert(std::string(key));
  refuse_unset(key);
  std::string value = row(key).value;
  if (const Node* node = set_in_file(key); node != nullptr && node->kind != Node::Kind::scalar)
    refuse(key, "is a list or a map; one word is expected");
  const std::string within = std::string(key) + ".";
  for (const auto& [path, node] : file_.members)
    if (path.starts_with(within))
      throw UserError(fmt::format("{}:{}: {}: is a map; one word is expected", out_.path, node.line,
                                  plain(std::string(key))));
  if (canonical(value).empty()) return {};
  return value;
}

bool Keys::flag(std::string_view key) {
  const std::optional<std::string> value = text(key);
  if (!value) return false;
  if (const std::optional<bool> truth = truth_of(*value)) return *truth;
  refuse(key, "is neither true nor false");
}

std::optional<std::int64_t> Keys::number(std::string_view key) {
  std::optional<std::string> value = text(key);
  if (!value) return {};
  std::erase(*value, '_');  // 500_000, as YAML 1.1 and Python have it
  std::size_t end = 0;
  std::int64_t number = 0;
  try {
    number = std::stoll(*value, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == 0 || end != value->size()) refuse(key, "is no whole number");
  return number;
}

std::int64_t Keys::count(std::string_view key, std::int64_t otherwise) {
  const std::int64_t n = number(key).value_or(otherwise);
  if (n < 1 || n > most_count) refuse(key, fmt::format("is from 1 to {}", most_count));
  return n;
}

std::int64_t Keys::world() const {
  const std::string given = value_of("--world");
  if (given.empty()) return 0;
  StepConfig config;
  const OptionRow& row = *find_option("--world");
  row.parse(row, row.name, given, config);
  return config.layout.world;
}

std::vector<std::string> Keys::words(std::string_view key) {
  asked_.insert(std::string(key));
  std::vector<std::string> all;
  refuse_unset(key);
  const Node* node = set_in_file(key);
  if (node != nullptr && node->kind == Node::Kind::list) {
    static_cast<void>(row(key));
    for (const Node& item : node->items) {
      if (item.kind != Node::Kind::scalar) refuse(key, "is a list of something else than words");
      all.push_back(item.text);
    }
    return all;
  }
  const std::string value = text(key).value_or("");
  if (node == nullptr && value == "[]") return all;  // a default
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    std::string word = value.substr(at, end - at);
    word.erase(0, word.find_first_not_of(' '));
    if (const std::size_t last = word.find_last_not_of(' '); last != std::string::npos)
      word.resize(last + 1);
    if (!word.empty()) all.push_back(word);
    at = end + 1;
  }
  return all;
}

const Node* Keys::node(std::string_view key) {
  asked_.insert(std::string(key));
  static_cast<void>(row(key));
  return set_in_file(key);
}

bool Keys::by_hand(std::string_view option) const {
  const OptionRow* wanted = find_option(option);
  const auto gives = [&](std::string_view name) {
    return std::any_of(request_.given.begin(), request_.given.end(),
                       [&](const auto& given) { return given.first == name; });
  };
  // A global batch says one of the two that it is made of: the one that is not by hand.
  if (gives(global_batch_option) &&
      (option == "--grad-accum" || (option == "--batch" && gives("--grad-accum"))))
    return true;
  return std::any_of(request_.given.begin(), request_.given.end(), [&](const auto& given) {
    return given.first == option || (wanted != nullptr && find_option(given.first) == wanted);
  });
}

std::string Keys::value_of(std::string_view option) const {
  std::string value;
  for (const OptionList* list : {&std::as_const(out_.options), &request_.given})
    for (const auto& [name, text] : *list)
      if (name == option) value = text;
  return value;
}

bool Keys::under_zero() const { return value_of("--shard").starts_with("zero"); }

bool Keys::under_fsdp() const {
  const std::string shard = value_of("--shard");
  return shard.starts_with("fsdp") || shard.starts_with("hsdp");
}

void Keys::check(std::string_view key, const std::string& name, const std::string& value) {
  if (const OptionRow* row = find_option(name)) {
    StepConfig tried;
    try {
      row->parse(*row, name, value, tried);
    } catch (const UserError& error) {
      refuse(key, error.what());
    }
  }
  const auto [before, added] = said_.try_emplace(name, std::string(key), value);
  const auto& [other, other_value] = before->second;
  if (!added && other != key && other_value != value)
    refuse(key, fmt::format("is {} {}, and {} is {} {}: one of them has to go", name, value,
                            plain(other), name, other_value));
  before->second = {std::string(key), value};
}

void Keys::option(std::string_view key, const std::string& name, const std::string& value) {
  if (!by_hand(name)) check(key, name, value);
  std::string shown = name + (value.empty() ? "" : " " + value);
  if (by_hand(name))
    shown += " (by hand instead)";
  else
    out_.options.emplace_back(name, value);
  std::string& options = row(key).options;
  options += (options.empty() ? "" : " ") + shown;
}

void Keys::refuse(std::string_view key, const std::string& why) const {
  const Node* node = set_in_file(key);
  if (node == nullptr) throw UserError(fmt::format("{}: {}: {}", out_.path, key, why));
  throw UserError(
      fmt::format("{}:{}: {}: {}: {}", out_.path, node->line, key, plain(node->shown()), why));
}

bool Keys::unplanned(std::string_view key, const std::string& why) {
  asked_.insert(std::string(key));
  if (std::find(request_.ignore.begin(), request_.ignore.end(), key) == request_.ignore.end())
    refuse(key, fmt::format("changes the step and is not planned: {}; --ignore {} plans without it",
                            why, key));
  row(key).options = "left out (--ignore)";
  out_.assumptions.push_back(fmt::format("{} is left out of the plan: {}", key, why));
  return true;
}

void Keys::finish() {
  const auto is_open = [&](const std::string& key) {
    return std::any_of(tool_.open.begin(), tool_.open.end(), [&](const std::string& section) {
      return key.starts_with(section) || key + "." == section;
    });
  };
  std::vector<std::string_view> known;
  for (const auto& [key, row] : tool_.defaults) known.push_back(key);
  for (const auto& [key, why] : tool_.unplanned) known.push_back(key);
  for (const std::string& key : tool_.no_effect) known.push_back(key);
  for (const auto& [key, node] : file_.members) {
    if (asked_.contains(key)) continue;
    if (const auto why = tool_.unplanned.find(key); why != tool_.unplanned.end()) {
      if (same(node.shown(), tool_.unplanned_defaults.at(key)))
        out_.no_effect.push_back(key);
      else if (!node.unset.empty())
        static_cast<void>(unplanned(key, node.unset + "; where it is on: " + why->second));
      else
        static_cast<void>(unplanned(key, why->second));
    } else if (tool_.no_effect.contains(key) || tool_.defaults.contains(key) || is_open(key)) {
      out_.no_effect.push_back(key);
    } else {
      const std::string_view near = model::nearest(key, known);
      out_.unknown.push_back(
          fmt::format("{} (line {}){}", key, node.line,
                      near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
  }
  for (const std::string& key : request_.ignore)
    if (file_.find(key) == nullptr && !asked_.contains(key))
      throw UserError(fmt::format("--ignore {}: {} has no such key", key, out_.path));
}

}  // namespace ac_advisor::intake
