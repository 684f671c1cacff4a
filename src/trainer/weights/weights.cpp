#include "trainer/weights/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

/// What adapter_config.json may say: alpha is twice the rank here, and nothing else is scaled.
void check_adapter_config(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const Json json = Json::parse(file, nullptr, false);
  const auto refuse = [&](const std::string& what) {
    throw UserError(path.string() + ": " + what);
  };
  if (!json.is_object()) refuse("is not a JSON object");
  const auto number = [&](const char* field) {
    if (!json.contains(field) || !json[field].is_number())
      refuse(fmt::format("\"{}\" must be a number", field));
    return json[field].get<double>();
  };
  const double rank = number("r"), alpha = number("lora_alpha");
  if (alpha != 2 * rank)
    refuse(
        fmt::format("\"lora_alpha\" is {} with \"r\" {}; the trainer's adapters have twice the "
                    "rank: {}",
                    alpha, rank, 2 * rank));
  for (const char* field : {"use_rslora", "fan_in_fan_out"})
    if (json.contains(field) && json[field] != false)
      refuse(fmt::format("\"{}\" is {}; the trainer has it not: false", field,
                         json[field].dump(-1, ' ', true)));
  for (const char* field : {"rank_pattern", "alpha_pattern"})
    if (json.contains(field) && !json[field].empty())
      refuse(fmt::format("\"{}\" is not empty; the trainer has one rank for all", field));
}

}  // namespace

Weights::Weights(const std::string& path) : path_(resolve(path)) {
  if (fs::path(path_).extension() == ".json")
    open_index();
  else
    files_.emplace("", SafetensorsFile(path_));
  std::error_code error;
  if (fs::is_directory(path, error)) open_adapters(path);
}

void Weights::open_adapters(const std::string& folder) {
  const fs::path file = fs::path(folder) / "adapter_model.safetensors",
                 config = fs::path(folder) / "adapter_config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  if (fs::exists(config, error)) check_adapter_config(config);
  adapters_.emplace(file.string());
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
  if (adapters_ && adapters_->has(name)) return &adapters_->entries().at(name);
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
  if (adapters_ && adapters_->has(name)) return adapters_->read(name, begin, end, std::move(to));
  const auto found = file_of_.find(name);
  files_.at(found != file_of_.end() ? found->second : "").read(name, begin, end, std::move(to));
}

namespace {

void check(const Weights& weights, const NamedParameter& parameter) {
  const SafetensorsFile::Entry* found = weights.find(parameter.name);
  if (found == nullptr)
    throw UserError(
        fmt::format("{}: no tensor \"{}\"; the model's configuration has one of shape [{}]",
                    weights.path(), parameter.name, fmt::join(parameter.shape, ", ")));
  if (found->shape != parameter.shape)
    throw UserError(fmt::format(
        "{}: tensor \"{}\" has shape [{}], the model's configuration says [{}]", weights.path(),
        parameter.name, fmt::join(found->shape, ", "), fmt::join(parameter.shape, ", ")));
  if (!at::isFloatingType(found->dtype))
    throw UserError(weights.path() + ": tensor \"" + parameter.name +
                    "\" is not of a floating-point type");
}

}  // namespace

bool without_file(const Weights& weights, const NamedParameter& parameter) {
  return is_adapter(parameter.holds) && weights.find(parameter.name) == nullptr;
}

void Weights::check_adapters(const std::vector<NamedParameter>& parameters) const {
  if (!adapters_) return;
  for (const auto& [name, entry] : adapters_->entries()) {
    const auto same = [&n = name](const NamedParameter& p) { return p.name == n; };
    if (std::any_of(parameters.begin(), parameters.end(), same)) continue;
    if (name.ends_with("lora_magnitude_vector"))
      throw UserError(adapters_->path() + ": tensor \"" + name +
                      "\" is a magnitude of DoRA's; give --dora");
    throw UserError(
        fmt::format("{}: tensor \"{}\" is of no adapter of this run; give --lora {} and "
                    "the --lora-targets that it was trained with",
                    adapters_->path(), name,
                    entry.shape.empty() ? 1 : std::min(entry.shape.front(), entry.shape.back())));
  }
}

void check_weights(const Weights& weights, const std::vector<NamedParameter>& parameters) {
  weights.check_adapters(parameters);
  bool adapters = false;
  for (const NamedParameter& parameter : parameters)
    adapters = adapters || (is_adapter(parameter.holds) && !without_file(weights, parameter));
  for (const NamedParameter& parameter : parameters) {
    if (is_quantized(parameter.holds) && parameter.holds != Holds::codes) continue;
    if (!is_adapter(parameter.holds) || adapters) check(weights, parameter);
  }
}

}  // namespace ac_advisor::trainer
