// MODEL of the command line: a file, a folder, a sample's name, standard input, what Hugging Face's
// cache has, an id of the Hub whose configuration is built in, or the JSON of one in place.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "embedded/embedded.hpp"
#include "found_config.hpp"
#include "hub_cache.hpp"
#include "hub_models.hpp"
#include "in_quotes.hpp"
#include "json_value.hpp"
#include "letters.hpp"
#include "nearest.hpp"

namespace ac_advisor::model {
namespace {

namespace fs = std::filesystem;

// A graph of a hundred blocks has 10 MiB.
constexpr std::size_t max_bytes = std::size_t{64} << 20;
constexpr std::string_view samples_folder = "sample_models/";
constexpr std::string_view config_name = "config.json";

[[noreturn]] void fail_too_large(const std::string& path) {
  throw UserError(
      fmt::format("{}: larger than {} MiB; a model's config.json has a few KiB, a graph a few MiB",
                  path, max_bytes >> 20));
}

std::string read_file(const fs::path& path) {
  const std::string shown = path.string();
  std::error_code error;
  const auto size = fs::file_size(path, error);  // fails for a pipe, which is read up to the limit
  if (!error && size > max_bytes) fail_too_large(shown);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(fmt::format("{}: cannot be opened: {}", shown, std::strerror(errno)));
  std::string text;
  char piece[1 << 14];
  while (file.read(piece, sizeof piece) || file.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(file.gcount()));
    if (text.size() > max_bytes) fail_too_large(shown);
  }
  return text;
}

std::string read_standard_input() {
  std::string text;
  char piece[1 << 14];
  while (std::cin.read(piece, sizeof piece) || std::cin.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > max_bytes) fail_too_large("standard input");
  }
  return text;
}

// The name in tables: a config.json has its folder's, any other file its own.
std::string display_name(const fs::path& file) {
  if (file.filename() != config_name) return file.stem().string();
  std::error_code error;
  const fs::path folder = fs::absolute(file, error).lexically_normal().parent_path();
  if (const std::string name = repository_name(folder); !name.empty()) return name;
  return error || folder.filename().empty() ? std::string("config") : folder.filename().string();
}

FoundConfig found_file(const fs::path& file) {
  return {read_file(file), file.string(), display_name(file)};
}

/// Its name is what its own field says.
FoundConfig found_in_place(const std::string& text) {
  const std::string origin = "the configuration in place";
  const JsonValue::Object root = read_json(text, origin);
  const JsonValue* name = root.find("name_or_path");
  const auto* said = name != nullptr ? std::get_if<std::string>(&name->data) : nullptr;
  return {text, origin, said != nullptr ? *said : "config"};
}

// "sample_models/<name>/config.json" → name; empty for other files
std::string_view sample_name(std::string_view path) {
  if (!path.starts_with(samples_folder) || !path.ends_with(config_name)) return {};
  path.remove_prefix(samples_folder.size());
  path.remove_suffix(std::min(path.size(), config_name.size() + 1));
  return path;
}

const embedded::File* find_sample(const std::string& model) {
  for (const embedded::File& file : embedded::files())
    if (!model.empty() && lower(sample_name(file.path)) == lower(model)) return &file;
  return nullptr;
}

[[noreturn]] void fail_unknown(const std::string& model) {
  const std::vector<std::string> names = sample_names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view sample = nearest(lower(fs::path(model).filename().string()), views);
  const std::string id = nearest_hub_name(model);
  const bool repository = model.find('/') != std::string::npos;
  const bool of_hub = !id.empty() && (repository || sample.empty());
  const std::string near = of_hub ? id : std::string(sample);
  throw UserError(fmt::format(
      "{}: no such file or folder, {}and no built-in model of that name{}; samples: {}; "
      "`ac-advisor "
      "models` lists the ids of Hugging Face's Hub too",
      in_quotes(model), repository ? "nothing of that name in Hugging Face's local cache, " : "",
      near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near), fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> sample_names() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::files())
    if (const std::string_view name = sample_name(file.path); !name.empty())
      names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

FoundConfig find_config(const std::string& model) {
  if (is_config(model)) return found_in_place(model);
  if (model == "-") return {read_standard_input(), "standard input", "stdin"};
  std::error_code error;
  const fs::path path(model);
  const fs::file_status status = fs::status(path, error);
  const bool folder = fs::is_directory(status);
  if (!folder && fs::exists(status)) return found_file(path);
  if (folder && fs::exists(path / config_name, error)) return found_file(path / config_name);
  if (const embedded::File* sample = find_sample(model))
    return {std::string(sample->text), std::string(sample->path),
            std::string(sample_name(sample->path))};
  const fs::path repository = folder ? path : cached_model(model);
  if (const fs::path snapshot = repository.empty() ? fs::path() : snapshot_of(repository);
      !snapshot.empty()) {
    if (fs::exists(snapshot / config_name, error)) return found_file(snapshot / config_name);
    throw UserError(fmt::format("{}: the snapshot has no config.json; was it downloaded whole?",
                                snapshot.string()));
  }
  auto of_hub = find_hub_model(model);
  if (!of_hub && !folder) of_hub = find_hub_model_by_last_part(model);
  if (of_hub) return {of_hub->config, "built-in configuration of " + of_hub->id, of_hub->id};
  if (folder)
    throw UserError(
        fmt::format("{}: the folder has no config.json; name one that has, or the file", model));
  fail_unknown(model);
}

ModelSpec load_model(const std::string& model, const std::string& as) {
  const FoundConfig found = find_config(model);
  return parse_config(found.text, found.origin, found.name, as);
}

}  // namespace ac_advisor::model
