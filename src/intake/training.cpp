#include "ac_advisor/intake/training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "model/nearest.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

const Tool* const tools[] = {&llamafactory, &trl};

const Tool& tool_of(const Request& request, const Node& file) {
  for (const Tool* tool : tools)
    if (request.tool.empty() ? tool->detects(file) : tool->name == request.tool) return *tool;
  const std::vector<std::string_view> names = tool_names();
  if (!request.tool.empty())
    throw UserError(fmt::format("--tool {}: not a tool whose files are read; those are: {}",
                                request.tool, fmt::join(names, ", ")));
  throw UserError(
      fmt::format("{}: its keys are of none of the tools whose files are read ({}); --tool NAME "
                  "says which it is",
                  request.path, fmt::join(names, ", ")));
}

/// `text` in `width` columns, the rest replaced by "…".
std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "…";
}

std::string list_text(std::string_view head, const std::vector<std::string>& words,
                      std::size_t width) {
  std::string out(head);
  std::size_t line = out.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line + 1 + word.size() > width) {
      out += "\n ";
      line = 1;
    }
    out += " " + word;
    line += 1 + word.size();
  }
  return out + "\n";
}

}  // namespace

std::vector<std::string_view> tool_names() {
  std::vector<std::string_view> names;
  for (const Tool* tool : tools) names.push_back(tool->name);
  return names;
}

bool is_training_file(std::string_view model) {
  return model.ends_with(".yaml") || model.ends_with(".yml");
}

Training read_training(const Request& request) {
  const Node file = read_document(request.path);
  if (file.kind != Node::Kind::map)
    throw UserError(fmt::format("{}: a training file is a map of keys to values", request.path));
  const Tool& tool = tool_of(request, file);
  const ToolKeys& known = tool_keys(tool.name);
  Training training{.tool = std::string(tool.name), .version = known.version, .path = request.path};
  Keys keys(file, known, request, training);
  tool.read(keys);
  keys.finish();
  return training;
}

std::string mapping_text(const Training& t, std::size_t width) {
  std::size_t key_width = 3, value_width = 5;
  for (const Mapping& m : t.mapping) {
    key_width = std::max(key_width, m.key.size());
    value_width = std::max(value_width, std::min<std::size_t>(m.value.size(), 20));
  }
  std::string text = fmt::format("{}: {} ({})\n", t.path, t.tool, t.version);
  text += fmt::format("{:<{}}  {:<{}}  {:<7}  option\n", "key", key_width, "value", value_width,
                      "line");
  for (const Mapping& m : t.mapping)
    text += cut(fmt::format("{:<{}}  {:<{}}  {:<7}  {}", m.key, key_width,
                            m.value.empty() ? "-" : cut(m.value, value_width), value_width,
                            m.line > 0 ? std::to_string(m.line) : "default",
                            m.options.empty() ? "-" : m.options),
                width) +
            "\n";
  if (!t.no_effect.empty()) text += list_text("no effect on memory:", t.no_effect, width);
  if (!t.unknown.empty()) text += list_text("not a key of " + t.tool + ":", t.unknown, width);
  return text;
}

}  // namespace ac_advisor::intake
