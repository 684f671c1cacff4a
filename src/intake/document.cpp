#include "document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::intake {

const Node* Node::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.key == key; });
  return found == members.end() ? nullptr : &found->value;
}

std::string Node::shown() const {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::scalar:
      return text;
    case Kind::map:
      return "{…}";
    case Kind::list:
      break;
  }
  std::vector<std::string> all;
  for (const Node& item : items) all.push_back(item.shown());
  return fmt::format("[{}]", fmt::join(all, ", "));
}

Node flattened(const Node& map) {
  Node flat{.kind = Node::Kind::map, .line = map.line, .notes = map.notes};
  for (const auto& [key, value] : map.members) {
    if (value.kind != Node::Kind::map || value.members.empty()) {
      flat.members.push_back({key, value});
      continue;
    }
    Node within = flattened(value);
    for (auto& [path, node] : within.members)
      flat.members.push_back({key + "." + path, std::move(node)});
  }
  return flat;
}

Node parsed(const std::string& text, const std::string& path) {
  if (path.ends_with(".sh")) return parse_script(text, path);
  return path.ends_with(".toml") ? parse_toml(text, path) : parse_document(text, path);
}

Node read_document(const std::string& path) {
  constexpr std::size_t most = std::size_t{4} << 20;
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    throw UserError(path + ": is a folder; give the training file in it");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most)
    throw UserError(
        fmt::format("{}: larger than {} MiB; a training file has a few KiB", path, most >> 20));
  return parsed(text, path);
}

}  // namespace ac_advisor::intake
