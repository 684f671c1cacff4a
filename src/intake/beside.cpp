// A configuration that a key of a training file has in place, or names the file of.
#include <fmt/format.h>

#include <filesystem>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

namespace fs = std::filesystem;

/// Beside the training file, or from the folder that the program was started in.
std::string path_of(Keys& keys, const Node& given) {
  std::error_code error;
  const fs::path beside = fs::path(keys.out().path).parent_path() / given.text;
  if (fs::is_regular_file(beside, error)) return beside.string();
  return fs::is_regular_file(given.text, error) ? given.text : std::string();
}

}  // namespace

Node config_of(Keys& keys, std::string_view key, const std::string& way_out) {
  Node config = *keys.node(key);
  if (config.kind == Node::Kind::scalar) {
    const std::string path = path_of(keys, config);
    if (path.empty())
      keys.refuse(key,
                  "no such file, neither beside this one nor here; put it there, or " + way_out);
    config = read_document(path);
  }
  if (config.kind != Node::Kind::map) keys.refuse(key, "is neither a map nor a file of one");
  return config;
}

}  // namespace ac_advisor::intake
