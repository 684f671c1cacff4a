#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/weights/names.hpp"
#include "trainer/weights/safetensors.hpp"

namespace ac_advisor::trainer {

/// A model's weights: one safetensors file, or the shards that a `model.safetensors.index.json`
/// names ({"weight_map": {tensor: file beside it}}; huggingface_hub, serialization). The header of
/// every shard is read and checked; tensors are read when they are asked for. In a folder PEFT's
/// adapter_model.safetensors counts, too, and adapter_config.json is checked.
class Weights {
 public:
  /// A .safetensors file, an index, or a folder that has one of both. Throws UserError naming the
  /// file and, of an index, the tensor and its shard.
  explicit Weights(const std::string& path);

  /// nullptr where there is no tensor of that name.
  [[nodiscard]] const SafetensorsFile::Entry* find(const std::string& name) const;
  /// As SafetensorsFile::read.
  void read(const std::string& name, std::int64_t begin, std::int64_t end, at::Tensor to) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Throws UserError for an adapter in the file that is none of `parameters`.
  void check_adapters(const std::vector<NamedParameter>& parameters) const;

 private:
  void open_index();
  void open_adapters(const std::string& folder);

  std::string path_;
  std::map<std::string, SafetensorsFile> files_;  ///< by the name in the index; "" for one file
  std::map<std::string, std::string> file_of_;    ///< of an index: tensor → name of its shard
  std::optional<SafetensorsFile> adapters_;
};

/// Every parameter is there with its shape, adapters all or none: throws UserError naming the first
/// that is not.
void check_weights(const Weights& weights, const std::vector<NamedParameter>& parameters);

/// Whether the parameter is made from the seed, though there is a file: adapters that it has not.
[[nodiscard]] bool without_file(const Weights& weights, const NamedParameter& parameter);

}  // namespace ac_advisor::trainer
