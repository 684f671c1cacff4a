#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "cli/commands.hpp"
#include "model/hub_models.hpp"
#include "model/letters.hpp"
#include "model/options_preset.hpp"

namespace ac_advisor::cli {

namespace {

constexpr std::size_t columns = 80;

std::string line_of(const std::string& name, std::size_t width) {
  return fmt::format("{:{}} {:>15} parameters\n", name, width,
                     model::parameter_count(model::load_model(name)));
}

/// The ids of an organization without its name, as many on a line as fit.
std::string ids_by_organization() {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& id : model::hub_names()) {
    const std::size_t slash = id.find('/');
    all[slash == std::string::npos ? "" : id.substr(0, slash + 1)].push_back(id.substr(slash + 1));
  }
  std::string text;
  for (const auto& [organization, names] : all) {
    std::string line = organization;
    for (const std::string& name : names) {
      if (!line.empty() && line.size() + 1 + name.size() > columns) {
        text += line + "\n";
        line = " ";
      }
      line += (line.empty() ? "" : " ") + name;
    }
    text += line + "\n";
  }
  return text;
}

std::string models_with(const std::string& word) {
  std::vector<std::string> found;
  std::size_t width = 0;
  for (const auto& names : {model::sample_names(), model::hub_names()})
    for (const std::string& name : names)
      if (model::lower(name).find(model::lower(word)) != std::string::npos) {
        found.push_back(name);
        width = std::max(width, name.size());
      }
  if (found.empty())
    throw UserError("models " + word +
                    ": no built-in model has this in its name; ac-advisor "
                    "models lists them all");
  std::string text;
  for (const std::string& name : found) text += line_of(name, width);
  return text;
}

}  // namespace

std::string run_models(const Arguments& a) {
  if (!a.positional.empty()) return models_with(a.positional[0]);
  std::string text = "samples\n";
  for (const std::string& name : model::sample_names()) text += line_of(name, 18);
  return text +
         "\nids of Hugging Face's Hub whose dimensions are built in, by organization\n"
         "(ac-advisor models WORD: their parameters)\n" +
         ids_by_organization();
}

std::string run_frameworks() {
  std::string text;
  for (const options::AboutFramework& about : options::frameworks()) {
    const StepConfig c = resolve_options({{"--framework", std::string(about.name)}});
    const Precision& p = c.precision;
    const std::string precision =
        p.autocast ? fmt::format("{} weights, {} autocast", to_option(p.param_dtype),
                                 to_option(p.compute_dtype))
                   : fmt::format("{} weights, computes in {}", to_option(p.param_dtype),
                                 to_option(p.compute_dtype));
    text += fmt::format("{:12} {}\n{:12} {}\n{:12} {}; loss {}, {} kernels, attention {}, {}\n",
                        about.name, about.title, "", about.version, "", precision, loss_option(c),
                        to_option(c.memory.kernels), to_option(c.run.attention),
                        to_option(c.optimizer.kind));
  }
  return text;
}

std::string run_devices() {
  std::string text;
  for (const std::string& name : simulate::device_names())
    text += fmt::format("{:12} {}\n", name, simulate::find_device(name).title);
  return text;
}

}  // namespace ac_advisor::cli
