#pragma once

#include "reader.hpp"

/// `steps` and `emulation` of a profile that `dryrun` wrote.
namespace ac_advisor::profile {

[[nodiscard]] Json steps_json(const std::vector<EmulatedStep>& steps);
[[nodiscard]] Json emulation_json(const Emulation& emulation);
void read_steps(const Reader& reader, std::vector<EmulatedStep>& steps);
void read_emulation(const Reader& reader, Emulation& emulation);

}  // namespace ac_advisor::profile
