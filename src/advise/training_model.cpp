#include "ac_advisor/advise/training_model.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "flavors.hpp"
#include "model/found_config.hpp"

namespace ac_advisor::advise {

std::string training_model(const intake::Training& training) {
  const std::string advice =
      "; give --model with its config.json, its folder or a built-in name (see ac-advisor models)";
  if (!training.config.empty()) return training.config;
  if (training.model.empty())
    throw UserError(
        fmt::format("{}: names no model ({}){}", training.path, training.model_key, advice));
  if (std::string sample = sample_of(training.flavor_of, training.model); !sample.empty())
    return sample;
  const std::filesystem::path beside =
      std::filesystem::path(training.path).parent_path() / training.model;
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return beside.string();
  try {
    static_cast<void>(model::find_config(training.model));
  } catch (const UserError& why) {
    if (!training.flavor_of.empty())
      throw UserError(fmt::format("{}: {}: no sample model has the sizes of {}'s {}{}",
                                  training.path, training.model_key, training.flavor_of,
                                  training.model, advice));
    throw UserError(
        fmt::format("{}: {}: {}{}", training.path, training.model_key, why.what(), advice));
  }
  return training.model;
}

}  // namespace ac_advisor::advise
