#include "trainer/weights/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t largest_index = std::size_t{64} << 20;

std::string resolve(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(fs::path(path) / name, error)) return (fs::path(path) / name).string();
  throw UserError(path +
                  ": the folder has no model.safetensors and no model.safetensors.index.json");
}

Json read_index(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error && size > largest_index)
    throw UserError(fmt::format("{}: larger than {} MiB, which no index of weights is", path,
                                largest_index >> 20));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(path + ": cannot be read; give a .safetensors file or its index");
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw UserError(path + ": has no object \"weight_map\" that names each tensor's file");
  return json["weight_map"];
}

}  // namespace

Weights::Weights(const std::string& path) : path_(resolve(path)) {
  if (fs::path(path_).extension() == ".json")
    open_index();
  else
    files_.emplace("", SafetensorsFile(path_));
}

void Weights::open_index() {
  const fs::path folder = fs::path(path_).parent_path();
  const Json index = read_index(path_);  // named: items() does not keep it alive
  for (const auto& [tensor, shard] : index.items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    // A shard lies beside its index: nothing else is opened.
    if (name.empty() || fs::path(name).filename() != name)
      throw UserError(
          fmt::format("{}: \"weight_map\" gives the tensor \"{}\" the file {}; expected "
                      "the name of a file beside the index",
                      path_, tensor, shard.dump(-1, ' ', true)));
    auto file = files_.find(name);
    if (file == files_.end())
      file = files_.emplace(name, SafetensorsFile((folder / name).string())).first;
    if (!file->second.has(tensor))
      throw UserError(
          fmt::format("{}: \"weight_map\" says that the tensor \"{}\" is in {}, which "
                      "does not have it",
                      path_, tensor, file->second.path()));
    file_of_[tensor] = name;
  }
}

const SafetensorsFile::Entry* Weights::find(const std::string& name) const {
  std::string file;
  if (files_.empty() || !files_.begin()->first.empty()) {
    const auto found = file_of_.find(name);
    if (found == file_of_.end()) return nullptr;
    file = found->second;
  }
  const auto& entries = files_.at(file).entries();
  const auto entry = entries.find(name);
  return entry != entries.end() ? &entry->second : nullptr;
}

void Weights::read(const std::string& name, std::int64_t begin, std::int64_t end,
                   at::Tensor to) const {
  const auto found = file_of_.find(name);
  files_.at(found != file_of_.end() ? found->second : "").read(name, begin, end, std::move(to));
}

void check_weights(const Weights& weights, const std::vector<std::string>& names,
                   const std::vector<std::vector<std::int64_t>>& shapes) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SafetensorsFile::Entry* found = weights.find(names[i]);
    if (found == nullptr)
      throw UserError(
          fmt::format("{}: no tensor \"{}\"; the model's configuration has one of "
                      "shape [{}]",
                      weights.path(), names[i], fmt::join(shapes[i], ", ")));
    if (found->shape != shapes[i])
      throw UserError(fmt::format(
          "{}: tensor \"{}\" has shape [{}], the model's configuration "
          "says [{}]",
          weights.path(), names[i], fmt::join(found->shape, ", "), fmt::join(shapes[i], ", ")));
    if (!at::isFloatingType(found->dtype))
      throw UserError(weights.path() + ": tensor \"" + names[i] +
                      "\" is not of a floating-point type");
  }
}

}  // namespace ac_advisor::trainer
