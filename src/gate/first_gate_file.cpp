#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/gate/check.hpp"

namespace ac_advisor::gate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The model as the case names it: a path relative to the gate's file, another name as it is.
std::string written(const std::string& model, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(model, error)) return model;
  const fs::path path = fs::relative(model, folder.empty() ? fs::path(".") : folder, error);
  return error || path.empty() ? model : path.generic_string();
}

/// Letters, digits and what else a case's name may have.
std::string case_name(const std::string& model, const StepConfig& c) {
  std::string name = model + "-" + ac_option(c);
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char d) { return std::isalnum(d) == 0 && d != '-' && d != '_' && d != '.'; },
      '-');
  constexpr std::size_t longest = 60;
  name = name.substr(0, longest);
  return name.front() == '.' ? "model" + name : name;
}

Json value_of(const std::string& text) {
  if (text.empty()) return true;
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && text.size() < 18) return std::stoll(text);
  return text;
}

}  // namespace

std::string first_gate_file(const std::string& origin, const FirstCase& first) {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const fs::path folder = fs::path(origin).parent_path();
  std::error_code error;
  const bool asked = !first.model.empty();
  const bool own = !asked && fs::exists(folder / "config.json", error);
  const std::string model = asked ? first.model
                            : own ? (folder / "config.json").string()
                                  : "llama-3.2-1b";
  OptionList options = first.options;
  if (!asked && options.empty()) options = {{"--batch", "8"}, {"--seq", "2048"}, {"--ac", "full"}};
  const model::ModelSpec spec = capture::load_model(model, first.as, options, first.capture);
  const StepConfig config = advise::resolve(spec, options).config;
  const profile::Profile p = advise::plan(spec, config, false);
  // The next whole GiB: a budget to be replaced by what the GPU has.
  const std::string budget = std::to_string(p.memory.peak_allocated / gib + 1) + "GiB";
  Json of_step = Json::object();
  for (const auto& [name, value] : options) of_step[name.substr(2)] = value_of(value);
  Json one{{"name", case_name(own ? "model" : spec.name, config)},
           {"model", written(model, folder)}};
  if (!first.as.empty()) one["as"] = first.as;
  one["options"] = std::move(of_step);
  one["limits"] = {{"peak_allocated",
                    {{"budget", budget}, {"regression", {{"percent", 1}, {"bytes", "256MiB"}}}}}};
  Json file;
  file["schema"] = gate_schema;
  file["baselines"] = "baselines";
  file["cases"] = Json::array({std::move(one)});
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::gate
