#include <fmt/format.h>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "cli/commands.hpp"

namespace ac_advisor::cli {

std::string run_models() {
  std::string text;
  for (const std::string& name : model::sample_names())
    text += fmt::format("{:18} {:>15} parameters\n", name,
                        model::parameter_count(model::load_model(name)));
  return text;
}

std::string run_devices() {
  std::string text;
  for (const std::string& name : simulate::device_names())
    text += fmt::format("{:12} {}\n", name, simulate::find_device(name).title);
  return text;
}

}  // namespace ac_advisor::cli
