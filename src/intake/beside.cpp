// What a key of a training file has in place, or names the file of.
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
  if (config.kind == Node::Kind::scalar && config.text.starts_with('{')) {  // a command's JSON
    config = parse_document(config.text, keys.out().path);
  } else if (config.kind == Node::Kind::scalar) {
    const std::string path = path_of(keys, config);
    if (path.empty())
      keys.refuse(key,
                  "no such file, neither beside this one nor here; put it there, or " + way_out);
    config = read_document(path);
  }
  if (config.kind != Node::Kind::map) keys.refuse(key, "is neither a map nor a file of one");
  return config;
}

void read_model_path(Keys& keys, std::string_view key) {
  keys.out().model_key = key;
  const Node* named = keys.node(key);
  if (named == nullptr) return;
  keys.out().model = named->text;
  const std::size_t slash = named->text.rfind('/');
  if (named->unset.empty() || slash == std::string::npos) return;
  keys.out().model.erase(0, slash + 1);
  keys.assume(fmt::format("{}: {}; {} is planned, --model names another", key, named->unset,
                          plain(keys.out().model)));
}

}  // namespace ac_advisor::intake
