#include <filesystem>
#include <nlohmann/json.hpp>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/gate/check.hpp"

namespace ac_advisor::gate {

std::string first_gate_file(const std::string& origin) {
  using Json = nlohmann::ordered_json;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const std::filesystem::path beside = std::filesystem::path(origin).parent_path() / "config.json";
  std::error_code error;
  const bool own = std::filesystem::exists(beside, error);
  const std::string model = own ? "config.json" : "llama-3.2-1b";
  const OptionList options{{"--batch", "8"}, {"--seq", "2048"}, {"--ac", "full"}};
  const profile::Profile p = advise::plan(model::load_model(own ? beside.string() : model),
                                          resolve_options(options), false);
  // The next whole GiB: a budget to be replaced by what the GPU has.
  const std::string budget = std::to_string(p.memory.peak_allocated / gib + 1) + "GiB";
  Json file;
  file["schema"] = gate_schema;
  file["baselines"] = "baselines";
  file["cases"] = Json::array();
  file["cases"].push_back(
      {{"name", own ? "model-full" : "llama-1b-full"},
       {"model", model},
       {"options", {{"batch", 8}, {"seq", 2048}, {"ac", "full"}}},
       {"limits",
        {{"peak_allocated",
          {{"budget", budget}, {"regression", {{"percent", 1}, {"bytes", "256MiB"}}}}}}}});
  return file.dump(2) + "\n";
}

}  // namespace ac_advisor::gate
