// Sizes that a framework has by name: data/flavors/<framework>.json, which
// tests/oracle/framework_flavors.py reads from the framework's own table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::advise {

struct Flavor {
  std::string family;  ///< transformers' model_type
  std::string model;   ///< TorchTitan's model.name, torchtune's package, the Hub's organisation
  std::string name;
  std::vector<std::pair<std::string, double>> sizes;

  /// 0 for a size that it does not name.
  [[nodiscard]] double size(std::string_view key) const;
};

/// All of a framework, in its own order; none for a framework without a table.
[[nodiscard]] const std::vector<Flavor>& flavors(std::string_view framework);
/// "vocab 32000 (not 128256), tied embeddings": what the model has and the flavor has not.
[[nodiscard]] std::string differences(const model::ModelSpec& model, const Flavor& flavor);
/// The first of the model's sizes in all that the table names; null: none.
[[nodiscard]] const Flavor* find_flavor(std::string_view framework, const model::ModelSpec& model);
/// The sample model of the sizes of a flavor, "model/name" as the framework's table has them;
/// empty: none.
[[nodiscard]] std::string sample_of(std::string_view framework, std::string_view flavor);
/// "; the nearest is 8B: vocab 32000 (not 128256)"; empty where no flavor is of the family.
[[nodiscard]] std::string nearest_flavor(std::string_view framework, const model::ModelSpec& model);

/// By how much Llama 3's scaling divides low frequencies; 1: rotary positions are as they are; 0:
/// they are stretched in another way.
[[nodiscard]] double llama3_rope_factor(const model::ModelSpec& model);

}  // namespace ac_advisor::advise
