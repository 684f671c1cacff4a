#pragma once

#include "ac_advisor/advise/advise.hpp"
#include "cli/arguments.hpp"

namespace ac_advisor::cli {

/// The sweep's space without what an option by hand has settled; --batch is only its middle.
[[nodiscard]] advise::Space space_of(const Arguments& arguments, const model::ModelSpec& model,
                                     const StepConfig& base);

}  // namespace ac_advisor::cli
