#include "host_ratios.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "embedded/embedded.hpp"

namespace ac_advisor::simulate {

double host_ratio(const std::string& name) {
  static const nlohmann::json ratios = [] {
    for (const embedded::File& file : embedded::files())
      if (file.path == "host/pytorch-2.11.json")
        return nlohmann::json::parse(file.text).at("ratios");
    throw std::logic_error("data/host/pytorch-2.11.json is not built in");
  }();
  return ratios.at(name).at("value").get<double>();
}

}  // namespace ac_advisor::simulate
