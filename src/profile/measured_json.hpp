#pragma once

#include "reader.hpp"

/// What only a run that was measured has: its losses, and what instruments saw.
namespace ac_advisor::profile {

[[nodiscard]] Json numerics_json(const Numerics& numerics);
void read_numerics(const Reader& reader, Numerics& numerics);
[[nodiscard]] Json instruments_json(const Instruments& instruments);
void read_instruments(const Reader& reader, Instruments& instruments);

}  // namespace ac_advisor::profile
