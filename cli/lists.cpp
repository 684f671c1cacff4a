#include <fmt/format.h>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "cli/commands.hpp"
#include "model/options_preset.hpp"

namespace ac_advisor::cli {

std::string run_models() {
  std::string text;
  for (const std::string& name : model::sample_names())
    text += fmt::format("{:18} {:>15} parameters\n", name,
                        model::parameter_count(model::load_model(name)));
  return text;
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
