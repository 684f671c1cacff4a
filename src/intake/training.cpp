#include "ac_advisor/intake/training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "model/nearest.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

/// Of two that would take a file the first.
const Tool* const tools[] = {&llamafactory, &trl_distillation, &trl_rloo, &trl_grpo, &trl_kto,
                             &trl_dpo,      &trl_reward,       &trl,      &axolotl,  &torchtitan,
                             &torchtune,    &automodel,        &litgpt,   &verl,     &ms_swift,
                             &openrlhf,     &megatron};

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

}  // namespace

std::vector<std::string_view> tool_names() {
  std::vector<std::string_view> names;
  for (const Tool* tool : tools) names.push_back(tool->name);
  return names;
}

bool is_training_file(std::string_view model) {
  return model.ends_with(".yaml") || model.ends_with(".yml") || model.ends_with(".toml") ||
         model.ends_with(".sh");
}

namespace {

void read_none_as_null(Node& node) {
  if (node.kind == Node::Kind::scalar && (node.text == "none" || node.text == "None"))
    node.kind = Node::Kind::null;
  for (Node& item : node.items) read_none_as_null(item);
  for (Member& member : node.members) read_none_as_null(member.value);
}

/// Keys by the names that the tool has for them now; the one that is there by both stays unknown.
void rename(const Tool& tool, Node& file) {
  for (const Renamed& key : tool.renamed)
    if (file.find(key.now) == nullptr)
      for (Member& member : file.members)
        if (member.key == key.before) {
          file.notes.push_back(fmt::format("line {}: {} is {} since {}", member.value.line,
                                           key.before, key.now, key.version));
          member.key = key.now;
        }
}

Training read_node(const Request& request, Node file) {
  if (file.kind != Node::Kind::map)
    throw UserError(fmt::format("{}: a training file is a map of keys to values", request.path));
  const Tool& tool = tool_of(request, file);
  const ToolKeys& known = tool_keys(tool.name);
  Training training{.tool = std::string(tool.name), .version = known.version, .path = request.path};
  rename(tool, file);
  training.assumptions = std::move(file.notes);
  if (tool.none_is_null) read_none_as_null(file);
  if (tool.nested) file = flattened(file);
  Keys keys(file, known, request, training);
  tool.read(keys);
  keys.finish();
  return training;
}

}  // namespace

Training read_training(const Request& request) {
  return read_node(request, read_document(request.path));
}

Training read_training(const Request& request, const std::string& text) {
  return read_node(request, parsed(text, request.path));
}

}  // namespace ac_advisor::intake
