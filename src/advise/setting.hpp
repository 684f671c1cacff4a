#pragma once

#include <string>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// "full/submodule ce eager tp2 fsdp2": what a sweep's rows and the largest that fit are called.
[[nodiscard]] std::string setting(const StepConfig& config);

}  // namespace ac_advisor::advise
